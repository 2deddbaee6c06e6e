/* hooks_counted.c - allocations that stay the driver's, passed through unchanged and counted; and
 * calls that take memory without saying so.
 *
 * The wrappers are generated from the COUNTED and RETRIED rows of hooks.def. A hit costs a call, a
 * load and a comparison: kernel launches are among them. Lock: none.
 */
#include "devices.h"
#include "driver.h"
#include "trace.h"

/* If the driver is out of memory while pools of the device hold idle memory, it is given back, and
 * the call is made once more. True: something was given back. */
static bool idle_memory_released(CUresult result)
{
    CUcontext current;
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return false;
    struct context *context = context_current(&current);
    return context != NULL && device_idle_release(context->device);
}

#define no_bytes passed_array /* for rows whose bytes are not known: adds 0 */
#define HOOK(symbol, base, version, flags, params, args)
#define REAL(symbol, params)
#define COUNTED(symbol, base, version, flags, params, args, calls, bytes_counter, bytes)           \
    CUresult hook_##symbol params                                                                  \
    {                                                                                              \
        if (!driver_ready())                                                                       \
            return CUDA_ERROR_NOT_INITIALIZED;                                                     \
        CUresult result = real_##symbol args;                                                      \
        if (idle_memory_released(result))                                                          \
            result = real_##symbol args;                                                           \
        if (result == CUDA_SUCCESS) {                                                              \
            struct device *device = device_for_counting();                                         \
            DEVICE_COUNT(device, calls, 1);                                                        \
            DEVICE_COUNT(device, bytes_counter, bytes);                                            \
            if (trace_wanted())                                                                    \
                trace_passed(__builtin_return_address(0), bytes);                                  \
        }                                                                                          \
        return result;                                                                             \
    }
#define RETRIED(symbol, base, version, flags, params, args)                                        \
    CUresult hook_##symbol params                                                                  \
    {                                                                                              \
        if (!driver_ready())                                                                       \
            return CUDA_ERROR_NOT_INITIALIZED;                                                     \
        CUresult result = real_##symbol args;                                                      \
        if (__builtin_expect(result == CUDA_ERROR_OUT_OF_MEMORY, 0) &&                             \
            idle_memory_released(result))                                                          \
            result = real_##symbol args;                                                           \
        return result;                                                                             \
    }
#include "hooks.def"
