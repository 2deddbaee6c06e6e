/* text.c - strings that come from outside, as they may be shown. See text.h. */
#include "text.h"

/* The second byte's bounds keep out overlong forms, surrogates, and what is beyond U+10FFFF. */
size_t text_character_bytes(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xbf;
    if (at[0] == 0)
        return 0;
    if (at[0] < 0x80)
        return 1;
    if (at[0] < 0xc2 || at[0] > 0xf4)
        return 0;
    if (at[0] == 0xe0)
        low = 0xa0;
    else if (at[0] == 0xf0)
        low = 0x90;
    else if (at[0] == 0xed)
        high = 0x9f;
    else if (at[0] == 0xf4)
        high = 0x8f;
    if (at[1] < low || at[1] > high)
        return 0;
    size_t bytes = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    for (size_t i = 2; i < bytes; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return bytes;
}
