/* A preload that does what the library must never do, to prove that the comparison notices.
 * VICTIM_BAD names the fault: reuse, code, noise, exit, hang. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

static CUdeviceptr kept;
static size_t kept_bytes;

static int bad(const char *fault)
{
    const char *chosen = getenv("VICTIM_BAD");
    return chosen != NULL && strcmp(chosen, fault) == 0;
}

CUresult cuMemAlloc_v2(CUdeviceptr *block, size_t bytes)
{
    CUresult (*next)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    if (bad("noise"))
        fprintf(stderr, "cuMemAlloc_v2 called\n");
    if (bad("hang"))
        pause();
    if (bad("exit"))
        _exit(0);
    if (bad("reuse") && kept != 0 && bytes <= kept_bytes) {
        *block = kept;
        kept = 0;
        return CUDA_SUCCESS;
    }
    return next(block, bytes);
}

CUresult cuMemFree_v2(CUdeviceptr block)
{
    CUresult (*next)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))dlsym(RTLD_NEXT, "cuMemFree_v2");
    if (bad("code"))
        return CUDA_ERROR_UNKNOWN;
    if (!bad("reuse") || kept != 0)
        return next(block);
    kept = block; /* without waiting for anybody */
    kept_bytes = 1 << 20;
    return CUDA_SUCCESS;
}
