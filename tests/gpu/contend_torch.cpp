/* contend_torch.cpp - PyTorch's caching allocator as a contender, called in C++ as the framework's own code calls it.
 * Compiled by tests/gpu/bench where a PyTorch is installed, against that one.
 */
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/headeronly/version.h>

#include "contend.h"

#include <exception>
#include <string>

/* Calls it, and takes what it throws for an answer. */
template <typename Call> static const char *tried(Call call)
{
    static thread_local std::string text;
    try {
        call();
        return NULL;
    } catch (const std::exception &error) {
        text = error.what();
        return text.c_str();
    }
}

static const char *open(void)
{
    return tried([] { c10::cuda::CUDACachingAllocator::init(1); });
}

static const char *allocate(void **block, size_t bytes, cudaStream_t stream)
{
    return tried([=] { *block = c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes, stream); });
}

static const char *release(void *block, size_t, cudaStream_t)
{
    return tried([=] { c10::cuda::CUDACachingAllocator::raw_delete(block); });
}

extern "C" const struct contender contend_contenders[] = {
    {"torch", "PyTorch " TORCH_VERSION, open, allocate, release},
    {NULL, NULL, NULL, NULL, NULL},
};
