/* Blocks live, freed and being freed at exit; after main nobody may call the driver. Case 23. */
#include "victim.h"
#include "victim_sim.h"

static void forbid(void)
{
    void (*forbid_calls)(void) = (void (*)(void))sim_function("vrsim_forbid_calls");
    if (forbid_calls != NULL)
        forbid_calls();
}

int main(void)
{
    void *a, *b, *c, *d;
    cudaStream_t stream;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMalloc(&a, 1000));
    MUST(cudaMalloc(&b, 70 * MIB));
    MUST(cudaMalloc(&c, 5 * MIB));
    MUST(cudaMallocAsync(&d, 5000, stream));
    kernel_write(stream, 1000000000, d, 5000);
    MUST(cudaFreeAsync(d, stream));
    MUST(cudaFree(b));
    MUST(cudaFree(c));
    printf("ends with a block live\n");
    atexit(forbid); /* runs before the destructors of libraries */
    return 3;
}
