/* reuse.cu - case 11 on a real GPU: a long kernel on a non-blocking stream will still write to a block when it
 * is freed; the next block of that size, filled by another stream, must not be touched by it. Also a kernel
 * fault: what the memory calls return then, and after a reset.
 *
 * usage: reuse [no-fault]      deferred frees do not report the fault where native ones do
 *
 * Prints the number of wrong words, which must be 0, and the results around the fault.
 */
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status_ = (call);                                                              \
        if (status_ != cudaSuccess) {                                                              \
            printf("%s: %s\n", #call, cudaGetErrorName(status_));                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define SHOW(call) printf("%s -> %s\n", #call, cudaGetErrorName(call))

__global__ void write_late(unsigned *words, size_t count, long long cycles)
{
    long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
    for (size_t i = threadIdx.x; i < count; i += blockDim.x)
        words[i] = 0xdeadu;
}

__global__ void fill(unsigned *words, size_t count, unsigned value)
{
    for (size_t i = threadIdx.x; i < count; i += blockDim.x)
        words[i] = value;
}

__global__ void verify(const unsigned *words, size_t count, unsigned value, unsigned long long *wrong)
{
    for (size_t i = threadIdx.x; i < count; i += blockDim.x)
        if (words[i] != value)
            atomicAdd(wrong, 1ull);
}

static unsigned long long reuse()
{
    cudaStream_t slow, quick;
    unsigned long long *wrong, total = 0;
    CHECK(cudaStreamCreateWithFlags(&slow, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&quick, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&wrong, 8));
    CHECK(cudaMemset(wrong, 0, 8));
    for (int i = 0; i < 120; i++) {
        size_t count = (size_t)64 << (i % 15);
        unsigned *first, *second;
        bool async = i % 3 == 2; /* the other way of freeing: in the order of the slow stream */
        CHECK(cudaMalloc((void **)&first, count * 4));
        write_late<<<1, 256, 0, slow>>>(first, count, 5000000);
        CHECK(async ? cudaFreeAsync(first, slow) : cudaFree(first));
        CHECK(cudaMalloc((void **)&second, count * 4));
        fill<<<1, 256, 0, quick>>>(second, count, (unsigned)i);
        CHECK(cudaStreamSynchronize(quick));
        CHECK(cudaStreamSynchronize(slow));
        verify<<<1, 256, 0, quick>>>(second, count, (unsigned)i, wrong);
        CHECK(cudaFree(second));
    }
    CHECK(cudaMemcpy(&total, wrong, 8, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(wrong));
    return total;
}

static void fault()
{
    void *a, *b;
    size_t free_bytes, total;
    CHECK(cudaMalloc(&a, 1000));
    CHECK(cudaMalloc(&b, 5 << 20));
    fill<<<1, 32>>>((unsigned *)0x10, 32, 1);
    SHOW(cudaFree(a));
    SHOW(cudaGetLastError());
    SHOW(cudaFree(b));
    SHOW(cudaMalloc(&a, 1000));
    SHOW(cudaMallocAsync(&a, 1000, 0));
    SHOW(cudaMemGetInfo(&free_bytes, &total));
    SHOW(cudaDeviceSynchronize());
    SHOW(cudaDeviceReset());
    SHOW(cudaMalloc(&a, 1000));
    SHOW(cudaFree(a));
    SHOW(cudaGetLastError());
}

int main(int argc, char **)
{
    unsigned long long wrong = reuse();
    printf("wrong words %llu\n", wrong);
    if (argc < 2)
        fault();
    return wrong != 0;
}
