/* json_text.c - strings in the JSON that the tools write. See json_text.h. */
#include "json_text.h"

#include <string.h>

#include "../../shim/text.h"

void json_text(FILE *to, const char *text)
{
    putc('"', to);
    while (*text != '\0') {
        size_t bytes = text_character_bytes(text);
        unsigned char first = (unsigned char)*text;
        if (bytes == 0)
            fputs("\\ufffd", to);
        else if (first < 32 || first == 127 || strchr("<>&'\"\\", first) != NULL)
            fprintf(to, "\\u%04x", (unsigned)first);
        else
            fwrite(text, 1, bytes, to);
        text += bytes > 0 ? bytes : 1;
    }
    putc('"', to);
}
