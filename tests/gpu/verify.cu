/* verify.cu - kernels fill and verify buffers of random sizes that come and go. Deterministic: prints one
 * checksum and the number of wrong words, which must be 0.
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status_ = (call);                                                              \
        if (status_ != cudaSuccess) {                                                              \
            printf("%s: %s\n", #call, cudaGetErrorName(status_));                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

__global__ void fill(unsigned *words, size_t count, unsigned seed)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        words[i] = seed * 2654435761u + (unsigned)i;
}

__global__ void verify(const unsigned *words, size_t count, unsigned seed, unsigned long long *result)
{
    unsigned long long wrong = 0, sum = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x) {
        wrong += words[i] != seed * 2654435761u + (unsigned)i;
        sum += words[i];
    }
    atomicAdd(&result[0], wrong);
    atomicAdd(&result[1], sum);
}

struct buffer {
    unsigned *words = nullptr;
    size_t count = 0;
    unsigned seed = 0;
};

int main()
{
    unsigned long long random = 88172645463325252ull;
    auto next = [&] {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        return random;
    };
    std::vector<buffer> buffers(64);
    unsigned long long *result, total[2] = {0, 0};
    CHECK(cudaMalloc((void **)&result, 16));
    CHECK(cudaMemset(result, 0, 16));
    for (int step = 0; step < 6000; step++) {
        buffer &b = buffers[next() % buffers.size()];
        if (b.words != nullptr) {
            verify<<<64, 256>>>(b.words, b.count, b.seed, result);
            CHECK(cudaFree(b.words));
            b.words = nullptr;
            continue;
        }
        b.count = 1 + next() % ((size_t)1 << (next() % 25));
        b.seed = (unsigned)next();
        CHECK(cudaMalloc((void **)&b.words, b.count * 4));
        fill<<<64, 256>>>(b.words, b.count, b.seed);
        CHECK(cudaGetLastError());
    }
    for (buffer &b : buffers)
        if (b.words != nullptr) {
            verify<<<64, 256>>>(b.words, b.count, b.seed, result);
            CHECK(cudaFree(b.words));
        }
    CHECK(cudaMemcpy(total, result, 16, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(result));
    printf("wrong words %llu, checksum %llx\n", total[0], total[1]);
    return total[0] != 0;
}
