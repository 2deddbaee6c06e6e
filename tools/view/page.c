/* page.c - the HTML page. See page.h.
 *
 * page.html, page.css and page.js are part of the program. Lines of page.html that hold a mark
 * alone are replaced by what it names. The page may load nothing and run no script but its own: the
 * policy names it by a random number that is made for each page, so that a text of the trace could
 * not become a script even if it were written wrongly.
 */
#include "page.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#define INCLUDED(name, file)                                                                       \
    __asm__(".section .rodata\n"                                                                   \
            "view_" #name ":\n.incbin \"tools/view/" file "\"\n.byte 0\n"                          \
            ".previous\n");                                                                        \
    extern const char view_##name[] __attribute__((visibility("hidden")))

INCLUDED(html, "page.html");
INCLUDED(css, "page.css");
INCLUDED(js, "page.js");

static bool nonce_make(char nonce[33])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return false;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(nonce + 2 * i, 3, "%02x", (unsigned)bytes[i]);
    return true;
}

bool page_write(const char *json, FILE *to)
{
    char nonce[33];
    if (!nonce_make(nonce))
        return false;
    const struct {
        const char *mark, *text;
    } parts[] = {
        {"@NONCE@", nonce}, {"@STYLE@", view_css}, {"@SCRIPT@", view_js}, {"@DATA@", json}};
    const char *from = view_html;
    for (const char *at = from; (at = strchr(at, '@')) != NULL; at++) {
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            size_t length = strlen(parts[i].mark);
            if (strncmp(at, parts[i].mark, length) != 0)
                continue;
            fwrite(from, 1, (size_t)(at - from), to);
            fputs(parts[i].text, to);
            from = at + length;
            at = from - 1;
            break;
        }
    }
    fputs(from, to);
    return true;
}
