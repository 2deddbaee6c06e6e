/* module_names.c - what the name of a module says, and how a frame is written. See modules.h. Who
 * links this has a module_name(): the library its table of what is loaded (modules.c), `vramalloc
 * report` the names in a report.
 */
#include <stdio.h>
#include <string.h>

#include "modules.h"
#include "text.h"

enum { SHOWN_BYTES = 256 };

static bool begins_with(const char *name, const char *start)
{
    return strncmp(name, start, strlen(start)) == 0;
}

void module_frame_text(const struct module_frame *frame, char *text, size_t bytes)
{
    char shown[SHOWN_BYTES];
    const char *module = module_name(frame->place.module);
    unsigned long long offset = frame->place.offset, into = frame->symbol_offset;
    if (frame->symbol[0] != '\0') {
        int used = snprintf(text, bytes, "%s+0x%llx (",
                            text_visible(frame->symbol, shown, sizeof(shown)), into);
        if (used > 0 && (size_t)used < bytes)
            snprintf(text + used, bytes - (size_t)used, "%s)",
                     text_visible(module, shown, sizeof(shown)));
    } else if (module[0] != '\0') {
        snprintf(text, bytes, "%s+0x%llx", text_visible(module, shown, sizeof(shown)), offset);
    } else {
        snprintf(text, bytes, "0x%llx", offset);
    }
}

bool module_is_runtime(uint32_t number)
{
    return begins_with(module_name(number), "libcudart");
}

bool module_is_keeper(uint32_t number)
{
    static const char *const keepers[] = {
#define KEEPER(start) start,
#include "libraries.def"
#undef KEEPER
    };
    for (size_t i = 0; i < sizeof(keepers) / sizeof(keepers[0]); i++)
        if (begins_with(module_name(number), keepers[i]))
            return true;
    return false;
}
