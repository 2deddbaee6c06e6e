/* What the driver says about an address: range, attributes, buffer ids. Case 17. */
#include "driver.h"

static void show(const char *what, CUdeviceptr start, CUdeviceptr address)
{
    CUdeviceptr base = 0, from = 0;
    size_t bytes = 0, size = 0;
    int result = (int)cuMemGetAddressRange(&base, &bytes, address);
    printf("%s: range %d", what, result);
    if (result == 0)
        printf(" base %d bytes %zu", base == start, bytes);
    result = (int)cuPointerGetAttribute(&from, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
    printf(", start %d", result);
    if (result == 0)
        printf(" %d", from == start);
    result = (int)cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
    printf(", size %d %zu", result, result == 0 ? size : 0);
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    unsigned type = 0;
    void *data[] = {&type, &size, &from};
    size = 0;
    from = 0;
    result = (int)cuPointerGetAttributes(3, which, data, address);
    printf(", all %d type %u size %zu start %d\n", result, type, size, from == start);
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUctxCreateParams params = {0};
    static const size_t sizes[] = {1, 1000, 1537, 70000, MIB + 1, 3 * MIB + 5, 100 * MIB};
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuCtxCreate(&context, &params, 0, device));
    for (int i = 0; i < 7; i++) {
        CUdeviceptr a, again;
        unsigned long long first = 0, second = 0, neighbour = 0;
        MUST(cuMemAlloc(&a, sizes[i]));
        MUST(cuMemAlloc(&again, sizes[i]));
        MUST(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, a));
        MUST(cuPointerGetAttribute(&neighbour, CU_POINTER_ATTRIBUTE_BUFFER_ID, again));
        show("start", a, a);
        show("last byte", a, a + sizes[i] - 1);
        show("one past", a, a + sizes[i]);
        MUST(cuMemFree(again));
        MUST(cuMemFree(a));
        show("freed", a, a);
        MUST(cuMemAlloc(&again, sizes[i]));
        MUST(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, again));
        printf("ids differ %d %d\n", first != second, first != neighbour);
        MUST(cuMemFree(again));
    }
    CUdeviceptr base;
    size_t bytes;
    CUdeviceptr a;
    MUST(cuMemAlloc(&a, 1000));
    SHOW(cuMemGetAddressRange(NULL, &bytes, a));
    SHOW(cuMemGetAddressRange(&base, NULL, a));
    SHOW(cuMemGetAddressRange(NULL, NULL, a));
    show("unknown", 0, 0x1000);
    return 0;
}
