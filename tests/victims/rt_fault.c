/* A pending asynchronous error is what cudaFree and cudaMalloc return, until the device is reset.
 */
#include "victim.h"
#include "victim_sim.h"

int main(void)
{
    void *a, *b;
    cudaStream_t stream;
    CUresult (*fault)(CUstream, uint64_t, CUresult) =
        (CUresult(*)(CUstream, uint64_t, CUresult))sim_function("vrsim_launch_fault");
    MUST(cudaMalloc(&a, 1000));
    MUST(cudaMalloc(&b, 1000));
    MUST(cudaStreamCreate(&stream));
    fault(stream, 1000, CUDA_ERROR_ILLEGAL_ADDRESS);
    SHOW(cudaFree(a));
    SHOW_LAST();
    SHOW(cudaFree(b));
    SHOW(cudaMalloc(&b, 1000));
    SHOW(cudaDeviceSynchronize());
    SHOW(cudaDeviceReset());
    SHOW(cudaMalloc(&a, 1000));
    SHOW(cudaFree(a));
    SHOW_LAST();
    return 0;
}
