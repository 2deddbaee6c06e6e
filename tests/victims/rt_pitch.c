/* Pitched and 3D memory: the pitch is the driver's. */
#include "victim.h"

int main(void)
{
    void *a;
    size_t pitch;
    for (size_t width = 1; width < 3000000; width = width * 17 / 8 + 1)
        for (size_t height = 1; height < 400; height = height * 9 + 2) {
            pitch = 0;
            cudaError_t result = cudaMallocPitch(&a, &pitch, width, height);
            printf("%zu x %zu -> %s, pitch %zu, ", width, height, cudaGetErrorName(result), pitch);
            printf("right %d, ", pattern_ok(a, pitch * height, 1));
            printf("free %d\n", (int)cudaFree(a));
        }
    SHOW(cudaMallocPitch(&a, &pitch, 0, 10));
    SHOW(cudaMallocPitch(&a, &pitch, SIZE_MAX - 5, 10));
    SHOW(cudaMallocPitch(&a, &pitch, SIZE_MAX / 4, 100));
    SHOW_LAST();
    struct cudaPitchedPtr pitched;
    struct cudaExtent extent = {1000, 20, 30};
    SHOW(cudaMalloc3D(&pitched, extent));
    printf("pitch %zu x %zu y %zu\n", pitched.pitch, pitched.xsize, pitched.ysize);
    SHOW(cudaFree(pitched.ptr));
    return 0;
}
