/* test_sim_lookup.c - cuGetProcAddress: base name, version and flavour lead to the exact function.
 *
 * Linked with the simulator itself, so the exported functions can be named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../sim/vrsim.h"

/* cuda.h declares these under other names or not at all; only their addresses matter. */
extern char old_alloc[] __asm__("cuMemAlloc"), new_alloc[] __asm__("cuMemAlloc_v2");
extern char synchronize[] __asm__("cuCtxSynchronize"), synchronize_of[] __asm__(
                                                           "cuCtxSynchronize_v2");
extern char create_2[] __asm__("cuCtxCreate_v2"), create_3[] __asm__("cuCtxCreate_v3");
extern char create_4[] __asm__("cuCtxCreate_v4");
extern char async[] __asm__("cuMemAllocAsync"), async_thread[] __asm__("cuMemAllocAsync_ptsz");
extern char copy[] __asm__("cuMemcpyHtoD_v2"), copy_thread[] __asm__("cuMemcpyHtoD_v2_ptds");
extern char get_4[] __asm__("cuGetProcAddress"), get_5[] __asm__("cuGetProcAddress_v2");
extern char capture[] __asm__("cuStreamBeginCapture"), capture_2[] __asm__(
                                                           "cuStreamBeginCapture_v2");
extern char release[] __asm__("cuDevicePrimaryCtxRelease");

static const struct {
    const char *name;
    int version;
    cuuint64_t flags;
    const char *want;
} requests[] = {
    {"cuMemAlloc", 2000, 0, old_alloc},
    {"cuMemAlloc", 3010, 0, old_alloc},
    {"cuMemAlloc", 3020, 0, new_alloc},
    {"cuMemAlloc", 13000, 2, new_alloc},
    {"cuCtxSynchronize", 2000, 0, synchronize},
    {"cuCtxSynchronize", 12080, 0, synchronize},
    {"cuCtxSynchronize", 13000, 0, synchronize_of},
    {"cuCtxCreate", 3020, 0, create_2},
    {"cuCtxCreate", 11040, 0, create_3},
    {"cuCtxCreate", 13000, 0, create_4},
    {"cuMemAllocAsync", 11020, 0, async},
    {"cuMemAllocAsync", 11020, 1, async},
    {"cuMemAllocAsync", 11020, 2, async_thread},
    {"cuMemcpyHtoD", 3020, 0, copy},
    {"cuMemcpyHtoD", 7000, 2, copy_thread},
    {"cuMemcpyHtoD", 3020, 2, copy},
    {"cuGetProcAddress", 11030, 0, get_4},
    {"cuGetProcAddress", 12000, 0, get_5},
    {"cuStreamBeginCapture", 10000, 0, capture},
    {"cuStreamBeginCapture", 10010, 0, capture_2},
    {"cuDevicePrimaryCtxRelease", 7000, 0, release},
};

static void requests_lead_to_exact_functions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        void *found = NULL;
        CUdriverProcAddressQueryResult status;
        CUresult result = cuGetProcAddress(requests[i].name, &found, requests[i].version,
                                           requests[i].flags, &status);
        if (result != CUDA_SUCCESS || found != (const void *)requests[i].want)
            fail_msg("%s %d %d: result %d, another function", requests[i].name, requests[i].version,
                     (int)requests[i].flags, (int)result);
        assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
    }
}

static void refused(const char *name, int version, CUdriverProcAddressQueryResult want)
{
    void *found = (void *)1;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    assert_int_equal(cuGetProcAddress(name, &found, version, 0, &status), CUDA_ERROR_NOT_FOUND);
    assert_null(found);
    assert_int_equal(status, want);
}

static void unknown_names_and_old_versions(void **state)
{
    (void)state;
    refused("cuNoSuchThing", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    refused("cuMemAlloc_v2", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    refused("", 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    refused("cuCtxRecordEvent", 12040, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    assert_int_equal(cuGetProcAddress(NULL, NULL, 0, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void the_old_calls_are_other_functions(void **state)
{
    CUresult (*alloc)(unsigned int *, unsigned int) =
        (CUresult(*)(unsigned int *, unsigned int))(void *)old_alloc;
    unsigned int address;
    CUcontext context;
    (void)state;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(alloc(&address, 100), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(vrsim_card_used(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_lead_to_exact_functions),
        cmocka_unit_test(unknown_names_and_old_versions),
        cmocka_unit_test(the_old_calls_are_other_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
