/* Each driver call that the library makes after it has taken a block, an event or a mapping fails,
 * the n-th time and every time. Once the failures are over and all is freed, no more exists than
 * after a round in which nothing failed, and all can be had but for the 2 MiB slot of the probe for
 * the pitch, which is kept. Three blocks are held at the end. Card: 64 MiB.
 */
#include "driver.h"
#include "../sim/vrsim.h"

enum { HELD_MAX = 16, NTH_MAX = 8 };

static const char *const names[] = {
    "cuMemAlloc_v2",       "cuMemAllocPitch_v2",  "cuMemFree_v2",
    "cuMemGetInfo_v2",     "cuEventCreate",       "cuEventRecord",
    "cuEventQuery",        "cuEventSynchronize",  "cuCtxRecordEvent",
    "cuCtxSynchronize",    "cuStreamSynchronize", "cuStreamGetId",
    "cuStreamGetCtx",      "cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode",
    "cuCtxGetCurrent",     "cuMemAllocAsync",     "cuMemFreeAsync",
    "cuMemAddressReserve", "cuMemCreate",         "cuMemMap",
    "cuMemSetAccess"};

static CUdeviceptr held[HELD_MAX];
static int held_count;
static CUstream stream;

static void hold(CUresult result, const CUdeviceptr *address)
{
    if (result == CUDA_SUCCESS)
        held[held_count++] = *address;
}

static void give(int i, int ordered)
{
    if (held[i] == 0)
        return;
    CUresult result = ordered ? cuMemFreeAsync(held[i], stream) : cuMemFree(held[i]);
    if (result == CUDA_SUCCESS)
        held[i] = 0;
}

static void work(void)
{
    CUdeviceptr a;
    size_t pitch, room, total;
    hold(cuMemAlloc(&a, 1000), &a);
    hold(cuMemAllocAsync(&a, 50000, stream), &a);
    hold(cuMemAlloc(&a, 5 * MIB), &a);
    hold(cuMemAllocAsync(&a, 70000, stream), &a);
    hold(cuMemAllocPitch(&a, &pitch, 100, 100, 4), &a);
    for (int i = 0; i < held_count; i++)
        give(i, i % 3 == 1);
    hold(cuMemAlloc(&a, 33 * MIB), &a);
    hold(cuMemAllocAsync(&a, 3 * MIB, stream), &a);
    cuMemGetInfo(&room, &total);
    for (int i = 0; i < held_count; i++)
        give(i, i % 2);
}

/* Everything is freed, and the card is had in one piece. */
static void round_end(struct vrsim_live *out)
{
    CUdeviceptr all;
    for (int i = 0; i < held_count; i++)
        give(i, 0);
    held_count = 0;
    MUST(cuCtxSynchronize());
    MUST(cuMemAlloc(&all, 62 * MIB));
    MUST(cuMemFree(all));
    vrsim_live(out);
}

static int more(const char *name, int nth, int code, const char *what, uint64_t now, uint64_t then)
{
    if (now > then)
        printf("%s fails (%d, %d): %d %s, %d where nothing fails\n", name, nth, code, (int)now,
               what, (int)then);
    return now > then;
}

static int round_check(const char *name, int nth, int code, const struct vrsim_live *usual)
{
    struct vrsim_live now;
    MUST((CUresult)vrsim_fail(name, (uint64_t)nth, (CUresult)code));
    work();
    vrsim_fail(name, 0, CUDA_SUCCESS);
    round_end(&now);
    return more(name, nth, code, "blocks", now.device_blocks, usual->device_blocks) +
           more(name, nth, code, "ordered", now.ordered_blocks, usual->ordered_blocks) +
           more(name, nth, code, "handles", now.handles, usual->handles) +
           more(name, nth, code, "mappings", now.mappings, usual->mappings) +
           more(name, nth, code, "reservations", now.reservations, usual->reservations) +
           more(name, nth, code, "events", now.events, usual->events);
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUctxCreateParams params = {0};
    CUdeviceptr a;
    struct vrsim_live usual;
    int rounds = 0, leaked = 0;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, &params, 0, device));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 3; i++) { /* no event answers: as many are made as are ever needed */
        vrsim_fail("cuEventQuery", 0, CUDA_ERROR_NOT_READY);
        work();
        vrsim_fail("cuEventQuery", 0, CUDA_SUCCESS);
        round_end(&usual);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        for (int nth = 0; nth <= NTH_MAX; nth++) {
            leaked += round_check(names[i], nth, CUDA_ERROR_OUT_OF_MEMORY, &usual);
            leaked += round_check(names[i], nth, CUDA_ERROR_UNKNOWN, &usual);
            rounds += 2;
        }
    printf("%d rounds, leaked %d\n", rounds, leaked);
    for (int i = 0; i < 3; i++)
        MUST(cuMemAlloc(&a, 1000));
    return 0;
}
