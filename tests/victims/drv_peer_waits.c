/* One device is let at another's memory, and the driver takes its time over it, or refuses.
 * blocks: meanwhile the other device's blocks come and go; ends: its context ends; fails: the
 * program is told, nothing stays half done, and the next try is one. */
#include "driver.h"

#include <pthread.h>
#include <unistd.h>

#include "../sim/vrsim.h"

enum { BLOCKS = 5 };

static const size_t sizes[BLOCKS] = {4096, 3 * MIB, 40 * MIB, 50 * MIB, 60 * MIB};
static CUcontext context[2];
static CUdeviceptr block[BLOCKS];

static void *enable(void *arg)
{
    MUST(cuCtxSetCurrent(context[1]));
    *(CUresult *)arg = cuCtxEnablePeerAccess(context[0], 0);
    return NULL;
}

static void *destroy(void *arg)
{
    *(CUresult *)arg = cuCtxDestroy(context[0]);
    return NULL;
}

static void allocate_and_free(void)
{
    CUdeviceptr small, medium;
    size_t free_bytes, total_bytes;
    MUST(cuCtxSetCurrent(context[0]));
    for (int i = 0; i < 50; i++) {
        MUST(cuMemAlloc(&small, 4096));
        MUST(cuMemAlloc(&medium, 2 * MIB));
        MUST(cuMemGetInfo(&free_bytes, &total_bytes));
        MUST(cuMemFree(medium));
        MUST(cuMemFree(small));
    }
}

/* Blocks that the second device can get at, as the driver itself says. */
static int reached(void)
{
    int count = 0;
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    CUresult (*access_get)(unsigned long long *, const CUmemLocation *, CUdeviceptr) = (CUresult(*)(
        unsigned long long *, const CUmemLocation *, CUdeviceptr))vrsim_function("cuMemGetAccess");
    for (int i = 0; i < BLOCKS; i++) {
        unsigned long long flags = 0;
        MUST(access_get(&flags, &location, block[i]));
        count += flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return count;
}

static void kernels_run(void)
{
    CUstream stream;
    MUST(cuCtxSetCurrent(context[1]));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < BLOCKS; i++) {
        struct vrsim_range range = {block[i], sizes[i], 1};
        MUST(vrsim_launch(stream, 1000, 1, &range));
    }
    MUST(cuStreamSynchronize(stream));
    printf("reached %d, hazards %d\n", reached(), (int)vrsim_hazards());
}

static void blocks_run(int ends)
{
    pthread_t enabling, ending;
    CUresult enabled = -1, ended = -1;
    vrsim_block("cuMemSetAccess");
    pthread_create(&enabling, NULL, enable, &enabled);
    while (vrsim_blocked("cuMemSetAccess") == 0)
        usleep(1000);
    if (ends) {
        pthread_create(&ending, NULL, destroy, &ended);
        usleep(50000);
    } else {
        allocate_and_free();
    }
    printf("enabled meanwhile: %d\n", enabled != (CUresult)-1);
    vrsim_unblock("cuMemSetAccess");
    pthread_join(enabling, NULL);
    printf("enabled: %d\n", (int)enabled);
    if (ends) {
        pthread_join(ending, NULL);
        printf("ended: %d\n", (int)ended);
    } else {
        kernels_run();
    }
}

static void fails_run(void)
{
    CUcontext second;
    CUctxCreateParams params = {0};
    MUST(cuCtxSetCurrent(context[1]));
    for (unsigned nth = 1; nth < 4; nth++) {
        vrsim_fail("cuMemSetAccess", nth, CUDA_ERROR_OUT_OF_MEMORY);
        SHOW(cuCtxEnablePeerAccess(context[0], 0));
        printf("reached %d\n", reached());
    }
    SHOW(cuCtxEnablePeerAccess(context[0], 0));
    kernels_run();
    SHOW(cuCtxEnablePeerAccess(context[0], 0));
    MUST(cuCtxCreate(&second, &params, 0, 1));
    vrsim_fail("cuMemSetAccess", 1, CUDA_ERROR_OUT_OF_MEMORY);
    SHOW(cuCtxEnablePeerAccess(context[0], 0)); /* all is open to its device already */
    vrsim_fail("cuMemSetAccess", 1, CUDA_SUCCESS);
    kernels_run();
}

int main(int argc, char **argv)
{
    CUctxCreateParams params = {0};
    const char *what = argc > 1 ? argv[1] : "blocks";
    MUST(cuInit(0));
    MUST(cuCtxCreate(&context[1], &params, 0, 1));
    MUST(cuCtxCreate(&context[0], &params, 0, 0));
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cuMemAlloc(&block[i], sizes[i]));
        vrsim_note_alloc(block[i], sizes[i]);
    }
    if (strcmp(what, "fails") == 0)
        fails_run();
    else
        blocks_run(strcmp(what, "ends") == 0);
    return 0;
}
