/* What the driver makes late must not starve beside memory that the library holds idle: the driver
 * is out of memory once, and the library has something to give back. Without it the failure stays.
 */
#include "driver.h"

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUctxCreateParams params = {0};
    CUdeviceptr a;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, &params, 0, device));
    for (int i = 0; i < 3; i++) {
        MUST(cuMemAlloc(&a, 40 * MIB));
        MUST(cuMemFree(a));
        if (i == 0) {
            SHOW(cuStreamCreate(&stream, 0));
        } else if (i == 1) {
            MUST(cuGraphCreate(&graph, 0));
            SHOW(cuGraphInstantiateWithFlags(&exec, graph, 0));
        } else {
            SHOW(cuGraphLaunch(exec, 0));
        }
    }
    return 0;
}
