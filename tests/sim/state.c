/* state.c - start, fork and exit of the simulated driver; devices; names of errors.
 *
 * What it leaves out: contexts (context.c), the card's memory (card.c).
 *
 * Lock: owns sim.lock. A forked child gets a fresh one, since another thread may have held it.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sim sim = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
__thread bool sim_in_callback;
__thread CUstreamCaptureMode sim_capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static void state_forked(void)
{
    pthread_mutex_init(&sim.lock, NULL);
    pthread_cond_init(&sim.changed, NULL);
    sim.forked = sim.initialised;
    work_after_fork();
}

static void state_exited(void)
{
    __atomic_store_n(&sim.exited, true, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void state_load(void)
{
    sim.next_id = 1;
    control_start();
    pthread_atfork(NULL, NULL, state_forked);
}

static void devices_start(void)
{
    for (int i = 0; i < sim.device_count; i++) {
        sim.devices[i].index = i;
        sim.devices[i].total_bytes = sim.card_bytes;
        sim.devices[i].memory_file = -1;
    }
}

CUresult state_init(unsigned int flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim.init_result != CUDA_SUCCESS)
        return sim.init_result;
    if (sim.device_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    if (sim.initialised)
        return state_is_clone() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
    devices_start();
    atexit(state_exited);
    sim.process = getpid();
    sim.initialised = true;
    return CUDA_SUCCESS;
}

/* Measured: to such a child cuInit and cuCtxSynchronize answer as to a forked one; small blocks
 * come and go there. */
bool state_is_clone(void)
{
    return sim.initialised && getpid() != sim.process;
}

uint64_t state_thread_id(void)
{
    static uint64_t last;
    static __thread uint64_t mine;
    if (mine == 0)
        mine = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    return mine;
}

/* --- devices -----------------------------------------------------------------------------------
 */

struct device *device_find(CUdevice device)
{
    return device >= 0 && device < sim.device_count ? &sim.devices[device] : NULL;
}

CUresult device_version(int *version)
{
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = sim.driver_version;
    return CUDA_SUCCESS;
}

CUresult device_get(CUdevice *device, int ordinal)
{
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_find(ordinal) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult device_count(int *count)
{
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim.device_count;
    return CUDA_SUCCESS;
}

CUresult device_name(char *name, int bytes, CUdevice device)
{
    if (name == NULL || bytes <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_find(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)bytes, "Simulated GPU %d", device);
    return CUDA_SUCCESS;
}

CUresult device_total(size_t *bytes, CUdevice device)
{
    struct device *found = device_find(device);
    if (bytes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (found == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = found->total_bytes;
    return CUDA_SUCCESS;
}

static int attribute_value(CUdevice_attribute attribute)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return 9;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
        return 32;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
        return 512;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return 132;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
        return 1;
    default:
        return 0;
    }
}

CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    if (value == NULL || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_find(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute_value(attribute);
    return CUDA_SUCCESS;
}

CUresult device_uuid(CUuuid *uuid, CUdevice device)
{
    if (uuid == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_find(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "vrsim-device-\0\0", sizeof(uuid->bytes));
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

CUresult device_can_access(int *can, CUdevice device, CUdevice peer)
{
    if (can == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_find(device) == NULL || device_find(peer) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

/* --- errors ----------------------------------------------------------------------------------- */

static const struct {
    CUresult code;
    const char *name;
    const char *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static const char *error_field(CUresult code, bool name)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == code)
            return name ? errors[i].name : errors[i].text;
    return NULL;
}

static CUresult error_answer(const char *found, const char **text)
{
    if (text == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *text = found;
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult error_name(CUresult code, const char **text)
{
    return error_answer(error_field(code, true), text);
}

CUresult error_text(CUresult code, const char **text)
{
    return error_answer(error_field(code, false), text);
}

CUresult export_table(const void **table, const CUuuid *id)
{
    (void)id;
    if (table == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
