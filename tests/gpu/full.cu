/* full.cu - case 10 on a real GPU: more than half of the free memory, a second one that must be refused, and
 * granted after a free; working sets of other sizes one after the other; the same in stream order. Prints
 * results, never addresses or amounts.
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

static int failed;

static const char *name(cudaError_t result)
{
    failed += result != cudaSuccess && result != cudaErrorMemoryAllocation;
    return cudaGetErrorName(result);
}

#define SHOW(call) printf("%s -> %s\n", #call, name(call))

/* Takes blocks of that size until the share of the card is reached. Returns the per cent that it got. */
static int take(size_t bytes, size_t target)
{
    std::vector<void *> blocks;
    while ((blocks.size() + 1) * bytes <= target) {
        void *block;
        if (cudaMalloc(&block, bytes) != cudaSuccess)
            break;
        blocks.push_back(block);
    }
    int got = (int)(100 * blocks.size() / (target / bytes));
    for (void *block : blocks)
        failed += cudaFree(block) != cudaSuccess;
    cudaGetLastError();
    return got;
}

int main()
{
    size_t free_bytes, total;
    void *a, *b;
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess)
        return 1;
    size_t most = free_bytes / 100 * 60;
    SHOW(cudaMalloc(&a, most));
    SHOW(cudaMalloc(&b, most));
    SHOW(cudaPeekAtLastError());
    SHOW(cudaGetLastError());
    SHOW(cudaFree(a));
    SHOW(cudaMalloc(&b, most / 60 * 95));
    SHOW(cudaGetLastError());
    SHOW(cudaFree(b));
    for (size_t bytes : {(size_t)7 << 30, (size_t)1 << 30, ((size_t)3 << 30) + 12345, (size_t)200 << 20})
        printf("blocks of %zu: %d %% of the target\n", bytes, take(bytes, free_bytes / 100 * 95));
    SHOW(cudaMallocAsync(&a, most, 0));
    SHOW(cudaMallocAsync(&b, most, 0));
    SHOW(cudaGetLastError());
    SHOW(cudaFreeAsync(a, 0));
    SHOW(cudaStreamSynchronize(0)); /* the driver's own pool gives back only then; ours sooner */
    SHOW(cudaMalloc(&b, most));
    SHOW(cudaFree(b));
    SHOW(cudaDeviceSynchronize());
    return failed != 0;
}
