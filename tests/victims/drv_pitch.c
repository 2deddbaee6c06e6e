/* Pitched memory by the driver API: element sizes that exist and that do not, NULL and zero. */
#include "driver.h"

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUctxCreateParams params = {0};
    CUdeviceptr a, base;
    size_t pitch, bytes;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, &params, 0, device));
    for (unsigned element = 0; element < 20; element++)
        for (size_t width = 1; width < 100000; width = width * 7 + 3) {
            pitch = 0;
            int result = (int)cuMemAllocPitch(&a, &pitch, width, 3, element);
            printf("element %u width %zu: %d pitch %zu", element, width, result, pitch);
            if (result == 0) {
                MUST(cuMemGetAddressRange(&base, &bytes, a + pitch));
                printf(" range %d %zu free %d", base == a, bytes, (int)cuMemFree(a));
            }
            printf("\n");
        }
    SHOW(cuMemAllocPitch(NULL, &pitch, 100, 100, 4));
    SHOW(cuMemAllocPitch(&a, NULL, 100, 100, 4));
    SHOW(cuMemAllocPitch(&a, &pitch, 0, 100, 4));
    SHOW(cuMemAllocPitch(&a, &pitch, 100, 0, 4));
    SHOW(cuMemAllocPitch(&a, &pitch, SIZE_MAX, 2, 4));
    return 0;
}
