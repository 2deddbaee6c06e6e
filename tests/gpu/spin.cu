/* spin.cu - which calls return while a kernel spins until the host says so: every call that natively does
 * not wait for the GPU, with growth and (in stream order) reuse forced. A call that has not returned after
 * LIMIT seconds is said to hang, and the kernel is let go.
 *
 * usage: spin [vmm]      vmm: the calls that move memory by handle instead, and what a destroyed context
 *                        leaves behind; for reading, not for comparing
 *
 * Prints a line a call; exit 1 on an unexpected error.
 */
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <functional>
#include <mutex>
#include <thread>

static const double LIMIT = 2.0;

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status_ = (call);                                                              \
        if (status_ != cudaSuccess) {                                                              \
            printf("%s: %s\n", #call, cudaGetErrorName(status_));                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define DRIVER(call)                                                                               \
    do {                                                                                           \
        CUresult status_ = (call);                                                                 \
        if (status_ != CUDA_SUCCESS) {                                                             \
            printf("%s: %d\n", #call, (int)status_);                                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static volatile int *flag;
static volatile int *flag_device;

__global__ void spin(volatile int *go)
{
    while (*go == 0) {
    }
}

/* Runs a call beside a spinning kernel, and says whether it came back before the kernel ended. */
static void beside(const char *what, const std::function<int()> &call, cudaStream_t stream)
{
    std::atomic<bool> returned{false};
    int result = 0;
    *flag = 0;
    spin<<<1, 1, 0, stream>>>(flag_device);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    auto begin = std::chrono::steady_clock::now();
    std::thread other([&] {
        cudaSetDevice(0);
        result = call();
        returned = true;
    });
    auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    while (!returned && seconds() < LIMIT)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    bool in_time = returned;
    *flag = 1;
    other.join();
    CHECK(cudaDeviceSynchronize());
    printf("%-44s %s, result %d\n", what, in_time ? "returns" : "HANGS", result);
    fflush(stdout);
}

static void runtime_calls(cudaStream_t stream, cudaStream_t second)
{
    static void *block[4000];
    static const size_t sizes[] = {256, 100 << 10, 3 << 20, 40 << 20, 700 << 20, (size_t)3 << 30};
    char what[100];
    for (int s = 0; s < 6; s++) {
        int count = sizes[s] > (1 << 30) ? 3 : sizes[s] > (100 << 20) ? 6 : sizes[s] > (1 << 20) ? 30 : 2000;
        auto many = [&] {
            int failed = 0;
            for (int i = 0; i < count; i++)
                failed += cudaMalloc(&block[i], sizes[s]) != cudaSuccess;
            return failed;
        };
        snprintf(what, sizeof what, "cudaMalloc %zu, %d times", sizes[s], count);
        beside(what, many, stream);
        for (int i = 0; i < count; i++)
            CHECK(cudaFree(block[i]));
        auto pairs = [&] {
            int failed = 0;
            for (int i = 0; i < count; i++) {
                failed += cudaMallocAsync(&block[0], sizes[s], second) != cudaSuccess;
                failed += cudaFreeAsync(block[0], second) != cudaSuccess;
            }
            return failed;
        };
        snprintf(what, sizeof what, "async pairs of %zu, on a second stream", sizes[s]);
        beside(what, pairs, stream);
        auto same = [&] {
            int failed = 0;
            for (int i = 0; i < count; i++)
                failed += cudaMallocAsync(&block[i], sizes[s], stream) != cudaSuccess;
            for (int i = 0; i < count; i++)
                failed += cudaFreeAsync(block[i], stream) != cudaSuccess;
            return failed;
        };
        snprintf(what, sizeof what, "async blocks of %zu, on its stream", sizes[s]);
        beside(what, same, stream);
    }
    size_t free_bytes, total;
    beside("cudaMemGetInfo", [&] { return (int)cudaMemGetInfo(&free_bytes, &total); }, stream);
    /* blocks of changing size, so that idle memory would have to move */
    auto changing = [&] {
        int failed = 0;
        for (int i = 0; i < 40; i++)
            failed += cudaMalloc(&block[i], ((size_t)i % 7 * 64 + 33) << 20) != cudaSuccess;
        return failed;
    };
    beside("cudaMalloc of changing sizes", changing, stream);
    for (int i = 0; i < 40; i++)
        CHECK(cudaFree(block[i]));
}

static CUdeviceptr mapped(size_t bytes, int handles)
{
    CUdeviceptr address;
    CUmemAllocationProp memory = {};
    CUmemAccessDesc access = {};
    memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER(cuMemAddressReserve(&address, bytes, 2 << 20, 0, 0));
    for (int i = 0; i < handles; i++) {
        CUmemGenericAllocationHandle handle;
        DRIVER(cuMemCreate(&handle, bytes / handles, &memory, 0));
        DRIVER(cuMemMap(address + bytes / handles * i, bytes / handles, 0, handle, 0));
        DRIVER(cuMemRelease(handle));
    }
    DRIVER(cuMemSetAccess(address, bytes, &access, 1));
    return address;
}

static void handle_calls(cudaStream_t stream)
{
    CUdeviceptr a = mapped(64 << 20, 8), b = mapped(64 << 20, 8), c;
    size_t before, gone, total;
    beside("reserve, create, map, allow", [&] { c = mapped(64 << 20, 2); return 0; }, stream);
    beside("unmap one of 8 handles", [&] { return (int)cuMemUnmap(a, 8 << 20); }, stream);
    beside("unmap two handles with one call", [&] { return (int)cuMemUnmap(a + (8 << 20), 16 << 20); }, stream);
    beside("unmap half a handle", [&] { return (int)cuMemUnmap(a + (24 << 20), 4 << 20); }, stream);
    beside("unmap all 8, free the addresses",
           [&] { return (int)cuMemUnmap(b, 64 << 20) * 1000 + (int)cuMemAddressFree(b, 64 << 20); }, stream);
    void *block;
    CHECK(cudaMalloc(&block, 64 << 20));
    beside("cuMemFree", [&] { return (int)cuMemFree((CUdeviceptr)block); }, stream);
    CUcontext other, popped;
    CUdevice device;
    CUctxCreateParams params = {};
    DRIVER(cuDeviceGet(&device, 0));
    CHECK(cudaMemGetInfo(&before, &total));
    DRIVER(cuCtxCreate(&other, &params, 0, device));
    CUdeviceptr left = mapped((size_t)4 << 30, 4);
    DRIVER(cuCtxPopCurrent(&popped));
    DRIVER(cuCtxDestroy(other));
    CHECK(cudaMemGetInfo(&gone, &total));
    printf("mapped in a context that was destroyed: %s\n", before - gone > ((size_t)3 << 30) ? "still held" : "given back");
    printf("unmap afterwards: %d\n", (int)cuMemUnmap(left, (size_t)4 << 30));
    CHECK(cudaMemGetInfo(&gone, &total));
    printf("then: %s\n", before > gone && before - gone > ((size_t)3 << 30) ? "still held" : "given back");
    left = mapped((size_t)4 << 30, 4);
    CHECK(cudaDeviceReset());
    CHECK(cudaFree(0));
    CHECK(cudaMemGetInfo(&gone, &total));
    printf("mapped before a device reset: %s\n", before > gone && before - gone > ((size_t)3 << 30) ? "still held" : "given back");
    printf("unmap afterwards: %d\n", (int)cuMemUnmap(left, (size_t)4 << 30));
}

int main(int argc, char **argv)
{
    cudaStream_t stream, second;
    void *host;
    CHECK(cudaHostAlloc(&host, 4096, cudaHostAllocMapped));
    flag = (volatile int *)host;
    CHECK(cudaHostGetDevicePointer((void **)&flag_device, host, 0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    *flag = 1;
    spin<<<1, 1, 0, stream>>>(flag_device); /* loaded now, not later */
    CHECK(cudaDeviceSynchronize());
    if (argc > 1 && strcmp(argv[1], "vmm") == 0)
        handle_calls(stream);
    else
        runtime_calls(stream, second);
    return 0;
}
