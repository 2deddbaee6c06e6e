/* version.c - binds the CUDA runtime to the driver and asks for the driver's version, nothing more.
 *
 * By then the runtime has looked up all driver functions that it will ever call. Prints the result
 * and the version.
 */
#include <stdio.h>

#include "../runtime/cuda_runtime_min.h"

int main(void)
{
    int version = -1;
    cudaError_t error = cudaDriverGetVersion(&version);
    printf("%d %d\n", (int)error, version);
    return 0;
}
