/* A thread allocates in a context while another destroys it: what it gets is the driver's, since
 * the memory of a pool is about to go. */
#include "driver.h"

#include <pthread.h>
#include <unistd.h>

#include "../sim/vrsim.h"

static CUcontext context;

static void *destroy(void *unused)
{
    SHOW(cuCtxDestroy(context));
    return unused;
}

int main(void)
{
    CUdevice device;
    CUctxCreateParams params = {0};
    CUdeviceptr block;
    pthread_t thread;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, &params, 0, device));
    MUST(cuMemAlloc(&block, 1000));
    MUST(cuMemFree(block));
    vrsim_block("cuCtxDestroy_v2");
    pthread_create(&thread, NULL, destroy, NULL);
    while (vrsim_blocked("cuCtxDestroy_v2") == 0)
        usleep(1000);
    printf("meanwhile -> %d\n", (int)cuMemAlloc(&block, 1000));
    vrsim_unblock("cuCtxDestroy_v2");
    pthread_join(thread, NULL);
    return 0;
}
