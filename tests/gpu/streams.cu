/* streams.cu - stream-ordered memory on four streams: each block is filled and verified on its stream, with
 * kernels of uneven length, and freed on the same or, after an event, on another stream. The number of
 * wrong words must be 0.
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

__global__ void delay(long long cycles)
{
    long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}

__global__ void fill(unsigned *words, size_t count, unsigned seed)
{
    for (size_t i = threadIdx.x; i < count; i += blockDim.x)
        words[i] = seed + (unsigned)i;
}

__global__ void verify(const unsigned *words, size_t count, unsigned seed, unsigned long long *wrong)
{
    unsigned long long bad = 0;
    for (size_t i = threadIdx.x; i < count; i += blockDim.x)
        bad += words[i] != seed + (unsigned)i;
    atomicAdd(wrong, bad);
}

int main()
{
    cudaStream_t stream[4];
    cudaEvent_t event;
    unsigned long long *wrong, total = 0;
    unsigned random = 12345;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMalloc((void **)&wrong, 8));
    CHECK(cudaMemset(wrong, 0, 8));
    for (int s = 0; s < 4; s++)
        CHECK(cudaStreamCreateWithFlags(&stream[s], s % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
    for (unsigned i = 0; i < 8000; i++) {
        random = random * 1103515245 + 12345;
        unsigned s = random >> 16 & 3, t = random >> 18 & 3;
        size_t count = 1 + (random >> 8) % (1u << (10 + i % 8));
        unsigned *words;
        CHECK(cudaMallocAsync((void **)&words, count * 4, stream[s]));
        if (i % 7 == 0)
            delay<<<1, 1, 0, stream[s]>>>(20000);
        fill<<<1, 256, 0, stream[s]>>>(words, count, i);
        verify<<<1, 256, 0, stream[s]>>>(words, count, i, wrong);
        if (s != t && i % 3 == 0) {
            CHECK(cudaEventRecord(event, stream[s]));
            CHECK(cudaStreamWaitEvent(stream[t], event, 0));
            verify<<<1, 256, 0, stream[t]>>>(words, count, i, wrong);
            CHECK(cudaFreeAsync(words, stream[t]));
        } else if (i % 11 == 0) {
            CHECK(cudaStreamSynchronize(stream[s])); /* cudaFree of such a block waits for nothing */
            CHECK(cudaFree(words));
        } else {
            CHECK(cudaFreeAsync(words, stream[s]));
        }
        if (i % 13 == 0) {
            CHECK(cudaMalloc((void **)&words, count * 4));
            fill<<<1, 256, 0, stream[s]>>>(words, count, i);
            verify<<<1, 256, 0, stream[s]>>>(words, count, i, wrong);
            if (i % 2)
                CHECK(cudaFreeAsync(words, stream[s])); /* in the order of its stream */
            else
                CHECK(cudaFree(words));
        }
    }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&total, wrong, 8, cudaMemcpyDeviceToHost));
    printf("wrong words %llu\n", total);
    return total != 0;
}
