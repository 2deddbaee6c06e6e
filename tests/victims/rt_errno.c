/* No memory call touches errno or a pending dlerror text. */
#include "victim.h"

#include <errno.h>

#define KEEPS(call)                                                                                \
    do {                                                                                           \
        errno = 77;                                                                                \
        int kept_ = (int)(call);                                                                   \
        printf("%s -> %d, errno %d\n", #call, kept_, errno);                                       \
    } while (0)

int main(void)
{
    void *a = NULL, *b = NULL;
    size_t free_bytes, total;
    MUST(cudaFree(0));
    KEEPS(cudaMalloc(&a, 1000));
    KEEPS(cudaMalloc(&b, 300 * MIB));
    KEEPS(cudaMalloc(NULL, 300));
    KEEPS(cudaFree((char *)a + 1));
    KEEPS(cudaFree(a));
    KEEPS(cudaFree(a));
    KEEPS(cudaFree(b));
    KEEPS(cudaMallocAsync(&a, 1000, 0));
    KEEPS(cudaFreeAsync(a, 0));
    KEEPS(cudaMemGetInfo(&free_bytes, &total));
    KEEPS(cudaDeviceReset());
    KEEPS(cudaMalloc(&a, 1000));
    return 0;
}
