/* text.c - strings that come from outside, as they may be shown. See text.h. */
#include "text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char cut_mark[] = "...";

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

/* U+0080 to U+009F are control characters as well. */
static bool is_control(const char *text, size_t bytes)
{
    unsigned char first = (unsigned char)text[0], second = (unsigned char)text[1];
    return bytes == 1 ? first < 0x20 || first == 0x7f : first == 0xc2 && second < 0xa0;
}

/* One byte, escaped. */
static size_t byte_escape(char byte, char *out, size_t bytes)
{
    static const char named[] = "\n\r\t", letters[] = "nrt";
    const char *found = strchr(named, byte);
    int length = found != NULL ? snprintf(out, bytes, "\\%c", letters[found - named])
                               : snprintf(out, bytes, "\\x%02x", (unsigned)(unsigned char)byte);
    return (size_t)length;
}

const char *text_visible(const char *text, char *out, size_t bytes)
{
    size_t used = 0, room = bytes - sizeof(cut_mark);
    while (*text != '\0') {
        char piece[8];
        size_t taken = text_character_bytes(text), length = taken;
        if (taken > 0 && !is_control(text, taken)) {
            memcpy(piece, text, taken);
        } else {
            length = byte_escape(*text, piece, sizeof(piece));
            taken = 1;
        }
        if (used + length > room) {
            memcpy(out + used, cut_mark, sizeof(cut_mark));
            return out;
        }
        memcpy(out + used, piece, length);
        used += length;
        text += taken;
    }
    out[used] = '\0';
    return out;
}
