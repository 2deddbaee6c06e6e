/* semantics.cu - asks the real driver the questions on which the library's behaviour rests, and prints
 * the answers, one a line. Run without the library; with it, the lines should be the same.
 *
 * usage: semantics [more]     more: only questions on which the library may answer otherwise
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <thread>
#include <unistd.h>

__global__ void spin(long long cycles)
{
    long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}

static double now_ms()
{
    using namespace std::chrono;
    return (double)duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count() / 1e3;
}

static const long long busy_cycles = 300000000; /* about 150 to 200 ms */

static void say(const char *what, int result, double ms)
{
    printf("%-74s result %3d, %s\n", what, result, ms > 50 ? "waited" : "did not wait");
}

#define TIMED(what, call)                                                                          \
    do {                                                                                           \
        double begin_ = now_ms();                                                                  \
        int result_ = (int)(call);                                                                 \
        say(what, result_, now_ms() - begin_);                                                     \
        cuCtxSynchronize();                                                                        \
    } while (0)

static void waits()
{
    CUcontext primary, second;
    CUdeviceptr a, b;
    cudaStream_t plain, other;
    void *p;
    cudaFree(0);
    cuCtxGetCurrent(&primary);
    cudaStreamCreateWithFlags(&plain, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    spin<<<1, 1, 0, plain>>>(1000);
    cudaDeviceSynchronize();
    cuMemAlloc(&a, 1 << 20);
    cuMemAlloc(&b, 8 << 20);
    spin<<<1, 1, 0, plain>>>(busy_cycles);
    TIMED("cuMemFree 1 MiB, kernel on a non-blocking stream", cuMemFree(a));
    spin<<<1, 1, 0, plain>>>(busy_cycles);
    TIMED("cuMemFree 8 MiB, kernel on a non-blocking stream", cuMemFree(b));
    spin<<<1, 1, 0, plain>>>(busy_cycles);
    TIMED("cuMemAlloc 8 MiB, kernel running", cuMemAlloc(&b, 8 << 20));
    cudaMallocAsync(&p, 1 << 20, plain);
    cudaStreamSynchronize(plain);
    spin<<<1, 1, 0, plain>>>(busy_cycles);
    TIMED("cudaFree of a cudaMallocAsync block, kernel on its stream", cudaFree(p));
    cudaMallocAsync(&p, 1 << 20, plain);
    cudaStreamSynchronize(plain);
    spin<<<1, 1, 0, other>>>(busy_cycles);
    TIMED("cudaFree of a cudaMallocAsync block, kernel on another stream", cudaFree(p));
    cudaMalloc(&p, 1 << 20);
    spin<<<1, 1, 0, plain>>>(busy_cycles);
    TIMED("cudaFreeAsync of a cudaMalloc block, kernel on that stream", cudaFreeAsync(p, plain));
    cudaMalloc(&p, 1 << 20);
    spin<<<1, 1, 0, other>>>(busy_cycles);
    TIMED("cudaFreeAsync of a cudaMalloc block, kernel on another stream", cudaFreeAsync(p, plain));
    spin<<<1, 1, 0, plain>>>(busy_cycles);
    TIMED("cuMemFree of an address that is no allocation, kernel running", cuMemFree(512));
    CUctxCreateParams params = {};
    CUdevice device;
    cuDeviceGet(&device, 0);
    cuMemAlloc(&a, 1 << 20);
    if (cuCtxCreate(&second, &params, 0, device) == CUDA_SUCCESS) {
        CUdeviceptr in_second;
        cuMemAlloc(&in_second, 1 << 20);
        cuCtxSetCurrent(primary);
        spin<<<1, 1, 0, plain>>>(busy_cycles);
        cuCtxSetCurrent(second);
        TIMED("cuMemFree of the second context's block, kernel in the primary",
              cuMemFree(in_second));
        cuCtxSetCurrent(primary);
        cuCtxSynchronize();
        spin<<<1, 1, 0, plain>>>(busy_cycles);
        cuCtxSetCurrent(second);
        TIMED("cuCtxSynchronize of the second context, kernel in the primary",
              cuCtxSynchronize());
        TIMED("cuMemFree of the primary's block from the second, kernel in the primary",
              cuMemFree(a));
        cuCtxDestroy(second);
        cuCtxSetCurrent(primary);
    }
    cuCtxSynchronize();
}

static void ranges()
{
    size_t sizes[] = {1, 1000, 512 * 3 + 1, (1 << 20) + 1, (3 << 20) + 5};
    for (size_t bytes : sizes) {
        CUdeviceptr block, base = 0;
        size_t range = 0, attribute = 0;
        cuMemAlloc(&block, bytes);
        int result = cuMemGetAddressRange(&base, &range, block + bytes / 2);
        cuPointerGetAttribute(&attribute, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block);
        printf("range of %zu bytes: result %d, base %s, size %zu, attribute %zu\n", bytes, result,
               base == block ? "exact" : "other", range, attribute);
        result = cuMemGetAddressRange(&base, &range, block + bytes);
        printf("  one past the end: result %d\n", result);
        cuMemFree(block);
        result = cuMemGetAddressRange(&base, &range, block);
        printf("  after free: result %d", result);
        unsigned long long id = 0;
        result = cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block);
        printf(", buffer id %d", result);
        CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                       CU_POINTER_ATTRIBUTE_RANGE_SIZE};
        unsigned type = 77;
        size_t size = 77;
        void *data[] = {&type, &size};
        result = cuPointerGetAttributes(2, which, data, block);
        printf(", attributes %d type %u size %zu\n", result, type, size);
    }
    CUdeviceptr base;
    size_t range;
    printf("range of an unknown address: result %d\n", cuMemGetAddressRange(&base, &range, 512));
    printf("free of unknown addresses: %d %d\n", cuMemFree(512), cuMemFree(0x7f0000000200));
    CUipcMemHandle handle;
    printf("ipc handle of an unknown address: %d\n", cuIpcGetMemHandle(&handle, 512));
    size_t total = 0, free_bytes = 0;
    printf("cuMemGetInfo(NULL,&total) %d, (&free,NULL) %d, (NULL,NULL) %d\n",
           cuMemGetInfo(NULL, &total), cuMemGetInfo(&free_bytes, NULL), cuMemGetInfo(NULL, NULL));
}

static void pitches()
{
    size_t unit = 0, pitch;
    CUdeviceptr block;
    int differ = 0, count = 0;
    cuMemAllocPitch(&block, &unit, 1, 1, 4);
    cuMemFree(block);
    for (unsigned element : {4u, 8u, 16u})
        for (size_t width = 1; width < 2000000; width = width * 9 / 8 + 1)
            for (size_t height : {1, 3, 100}) {
                if (cuMemAllocPitch(&block, &pitch, width, height, element) != CUDA_SUCCESS)
                    continue;
                cuMemFree(block);
                count++;
                if (pitch != (width + unit - 1) / unit * unit) {
                    differ++;
                    printf("pitch of width %zu height %zu element %u: %zu\n", width, height, element,
                           pitch);
                }
            }
    printf("pitch unit %zu; %d of %d widths differ from rounding up to it\n", unit, differ, count);
}

static void capture_frees()
{
    cudaStream_t stream;
    cudaGraph_t graph = nullptr;
    void *p;
    cudaMalloc(&p, 1 << 20);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
    int result = (int)cudaFreeAsync(p, stream);
    int end = (int)cudaStreamEndCapture(stream, &graph);
    printf("cudaFreeAsync of a cudaMalloc block on a capturing stream: %d, end %d\n", result, end);
    cudaGetLastError();
    cudaFree(p);
    for (int mode = 0; mode < 3; mode++) {
        cudaMallocAsync(&p, 1 << 20, 0);
        cudaDeviceSynchronize();
        cudaStreamBeginCapture(stream, (cudaStreamCaptureMode)mode);
        result = (int)cudaFreeAsync(p, stream);
        end = (int)cudaStreamEndCapture(stream, &graph);
        printf("cudaFreeAsync of a cudaMallocAsync block on a stream capturing in mode %d: %d, end %d\n",
               mode, result, end);
        cudaGetLastError();
        printf("  freed again outside: %d\n", (int)cudaFreeAsync(p, 0));
        cudaGetLastError();
        cudaDeviceSynchronize();
    }
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    std::thread other([] {
        cudaSetDevice(0);
        CUevent event = nullptr;
        int made = (int)cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
        printf("cuEventCreate beside a thread-local capture: %d\n", made);
    });
    other.join();
    end = (int)cudaStreamEndCapture(stream, &graph);
    printf("  end %d\n", end);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    std::thread third([] {
        cudaSetDevice(0);
        CUevent event = nullptr;
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        cuThreadExchangeStreamCaptureMode(&mode);
        int made = (int)cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
        CUdeviceptr block = 0;
        int allocated = (int)cuMemAlloc(&block, 4 << 20);
        int freed = (int)cuMemFree(block);
        printf("relaxed beside a global capture: cuEventCreate %d cuMemAlloc %d cuMemFree %d\n", made,
               allocated, freed);
    });
    third.join();
    end = (int)cudaStreamEndCapture(stream, &graph);
    printf("  end %d\n", end);
    CUstreamCaptureStatus status;
    cudaStream_t blocking;
    cudaStreamCreate(&blocking);
    cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal);
    result = (int)cuStreamIsCapturing(0, &status);
    end = (int)cudaStreamEndCapture(blocking, &graph);
    printf("cuStreamIsCapturing(legacy) beside a blocking stream's capture: %d, end %d\n", result, end);
    cudaGetLastError();
}

/* Shared memory by handles: is the place inside an allocation kept? */
static void handles()
{
    CUipcMemHandle start, inside;
    CUdeviceptr a, b;
    cuMemAlloc(&a, 100000);
    cuMemAlloc(&b, 100000);
    int first = (int)cuIpcGetMemHandle(&start, a), second = (int)cuIpcGetMemHandle(&inside, a + 5000);
    printf("IPC handle of a start %d, of an interior address %d, the same bytes %d\n", first, second,
           memcmp(&start, &inside, sizeof(start)) == 0);
    second = (int)cuIpcGetMemHandle(&inside, b);
    printf("IPC handle of the neighbour %d, the same bytes %d\n", second,
           memcmp(&start, &inside, sizeof(start)) == 0);
    cuMemFree(a);
    cuMemFree(b);
}

/* A card that is full of memory whose free is pending on a busy stream. */
static void full_card()
{
    cudaStream_t busy, other;
    size_t free_bytes, total;
    void *p, *q = nullptr;
    cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    for (int async = 0; async < 2; async++) {
        cudaMemGetInfo(&free_bytes, &total);
        size_t most = free_bytes / 100 * 60;
        int result = (int)cudaMallocAsync(&p, most, busy);
        cudaStreamSynchronize(busy);
        spin<<<1, 1, 0, busy>>>(busy_cycles);
        printf("60 %% of the card in stream order %d, freed under a kernel %d\n", result,
               (int)cudaFreeAsync(p, busy));
        q = nullptr;
        if (async)
            TIMED("  60 % in another stream's order", cudaMallocAsync(&q, most, other));
        else
            TIMED("  60 % by cudaMalloc", cudaMalloc(&q, most));
        cudaGetLastError();
        cudaFree(q);
        cudaDeviceSynchronize();
    }
}

/* The primary context after a reset. */
static void after_reset()
{
    CUcontext primary;
    CUdevice device;
    CUdeviceptr a, b;
    cuDeviceGet(&device, 0);
    cuDevicePrimaryCtxRetain(&primary, device);
    cuCtxSetCurrent(primary);
    cuMemAlloc(&a, 1000);
    printf("reset %d, ", (int)cuDevicePrimaryCtxReset(device));
    printf("free of a block from before %d, ", (int)cuMemFree(a));
    printf("made current again %d, ", (int)cuCtxSetCurrent(primary));
    printf("allocation without a new retain %d\n", (int)cuMemAlloc(&b, 1000));
}

int main(int argc, char **argv)
{
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "more") == 0) {
        cudaFree(0);
        handles();
        full_card();
        after_reset();
        return 0;
    }
    waits();
    ranges();
    pitches();
    capture_frees();
    return 0;
}
