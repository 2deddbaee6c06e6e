/* Contexts and the order of work: blocks freed under a running kernel while another context, or
 * none, is current; on a stream of the other context; and what is used again after a context. */
#include "driver.h"

#include "../sim/vrsim.h"

enum { BYTES = 300000 };

static CUcontext one, two;
static CUstream slow, quick, foreign;

static CUdeviceptr block_make(void)
{
    CUdeviceptr block;
    MUST(cuCtxSetCurrent(one));
    MUST(cuMemAlloc(&block, BYTES));
    vrsim_note_alloc(block, BYTES);
    return block;
}

static void kernel_run(CUstream stream, uint64_t ns, CUdeviceptr block)
{
    struct vrsim_range range = {block, BYTES, 1};
    MUST(cuCtxSetCurrent(one));
    MUST(vrsim_launch(stream, ns, 1, &range));
}

/* Whoever has the memory next uses it at once. */
static void use_again(void)
{
    CUdeviceptr block = block_make();
    kernel_run(quick, 1000, block);
    vrsim_note_free(block);
    MUST(cuMemFree(block));
}

static void freed_while_current(CUcontext current)
{
    CUdeviceptr block = block_make();
    kernel_run(slow, 10000000, block);
    MUST(cuCtxSetCurrent(current));
    vrsim_note_free(block);
    MUST(cuMemFree(block));
    use_again();
}

/* The stream is ordered after the kernel, wherever it is from. */
static void freed_on(CUstream stream, CUcontext current)
{
    CUdeviceptr block;
    CUevent event;
    MUST(cuCtxSetCurrent(one));
    MUST(cuMemAllocAsync(&block, BYTES, slow));
    vrsim_note_alloc_async(block, BYTES, slow);
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    kernel_run(slow, 10000000, block);
    MUST(cuEventRecord(event, slow));
    MUST(cuCtxSetCurrent(current));
    MUST(cuStreamWaitEvent(stream, event, 0));
    vrsim_note_free_async(block, stream);
    MUST(cuMemFreeAsync(block, stream));
    MUST(cuCtxSetCurrent(one));
    MUST(cuMemAllocAsync(&block, BYTES, quick));
    vrsim_note_alloc_async(block, BYTES, quick);
    kernel_run(quick, 1000, block);
    vrsim_note_free_async(block, quick);
    MUST(cuMemFreeAsync(block, quick));
    MUST(cuEventDestroy(event));
    use_again();
}

int main(void)
{
    CUdevice device;
    CUctxCreateParams params = {0};
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    for (int life = 0; life < 3; life++) {
        MUST(cuCtxCreate(&two, &params, 0, device));
        MUST(cuStreamCreate(&foreign, CU_STREAM_NON_BLOCKING));
        MUST(cuCtxCreate(&one, &params, 0, device));
        MUST(cuStreamCreate(&slow, CU_STREAM_NON_BLOCKING));
        MUST(cuStreamCreate(&quick, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < 5; i++) {
            freed_while_current(one);
            freed_while_current(two);
            freed_while_current(NULL);
            freed_on(slow, one);
            freed_on(slow, two);
            freed_on(foreign, two);
            freed_on(foreign, one);
        }
        MUST(cuCtxDestroy(one));
        MUST(cuCtxDestroy(two));
    }
    printf("hazards %d\n", (int)vrsim_hazards());
    return 0;
}
