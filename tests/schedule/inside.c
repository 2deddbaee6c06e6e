/* inside.c - a part of the test build of the library: looks at its inside after a run. It is called
 * by the only thread left. */
#include <stddef.h>
#include <stdio.h>

#include "../../shim/capture.h"
#include "../../shim/devices.h"

/* What is wrong, in words; NULL if nothing is. */
__attribute__((visibility("default"))) const char *schedule_inside(void)
{
    static char why[256];
    struct context *context;
    for (CUdevice handle = 0; handle < DEVICES_MAX; handle++) {
        const struct device *device = device_known(handle);
        for (int slot = 0; device != NULL && (context = device_context(device, &slot)) != NULL;)
            if (!pool_check(context->pool, why, sizeof(why)))
                return why;
    }
    if (capture_in_progress())
        return "a capture that has ended is in progress";
    if (!capture_gate_enter())
        return "the gate stays closed";
    capture_gate_leave();
    return NULL;
}
