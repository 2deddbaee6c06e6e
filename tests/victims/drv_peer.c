/* Two devices, each let at the other's memory: the other's kernels use blocks that were there
 * before, in memory that is held already and in new memory, and a free waits for them. */
#include "driver.h"

#include "../sim/vrsim.h"

static CUcontext context[2];
static CUstream stream[2];

static void kernel_run(int device, uint64_t ns, CUdeviceptr block, size_t bytes)
{
    struct vrsim_range range = {block, bytes, 1};
    MUST(cuCtxSetCurrent(context[device]));
    MUST(vrsim_launch(stream[device], ns, 1, &range));
}

static CUdeviceptr block_make(int device, size_t bytes)
{
    CUdeviceptr block;
    MUST(cuCtxSetCurrent(context[device]));
    MUST(cuMemAlloc(&block, bytes));
    vrsim_note_alloc(block, bytes);
    return block;
}

static void block_free(int device, CUdeviceptr block)
{
    MUST(cuCtxSetCurrent(context[device]));
    vrsim_note_free(block);
    MUST(cuMemFree(block));
}

int main(void)
{
    static const size_t sizes[] = {5000, MIB, 30 * MIB, 400 * MIB};
    CUctxCreateParams params = {0};
    CUdeviceptr early[2], block;
    MUST(cuInit(0));
    for (int d = 0; d < 2; d++) {
        MUST(cuCtxCreate(&context[d], &params, 0, d));
        MUST(cuStreamCreate(&stream[d], CU_STREAM_NON_BLOCKING));
        early[d] = block_make(d, 3 * MIB);
    }
    for (int d = 0; d < 2; d++) {
        MUST(cuCtxSetCurrent(context[d]));
        SHOW(cuCtxEnablePeerAccess(context[1 - d], 0));
        SHOW(cuCtxEnablePeerAccess(context[1 - d], 0));
    }
    for (int d = 0; d < 2; d++) {
        kernel_run(1 - d, 10000000, early[d], 3 * MIB);
        block_free(d, early[d]);
    }
    for (int i = 0; i < 16; i++) {
        int d = i % 2;
        size_t bytes = sizes[i / 2 % 4];
        block = block_make(d, bytes);
        kernel_run(1 - d, 10000000, block, bytes); /* nobody else waits for it */
        block_free(d, block);
        block = block_make(d, bytes);
        kernel_run(d, 1000, block, bytes);
        block_free(d, block);
    }
    printf("hazards %d\n", (int)vrsim_hazards());
    return 0;
}
