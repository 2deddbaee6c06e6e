/* costs.cu - what the driver calls cost that the library makes on its hot paths, in nanoseconds: the
 * median of nine batches each. Run without the library.
 *
 * usage: costs [NAME...]      only those that begin so
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <pthread.h>
#include <time.h>
#include <vector>

static double now_ns()
{
    using namespace std::chrono;
    return (double)duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

static char **wanted; /* NULL at the end; empty: all */

static bool is_wanted(const char *what)
{
    for (char **name = wanted; *name != NULL; name++)
        if (strncmp(what, *name, strlen(*name)) == 0)
            return true;
    return *wanted == NULL;
}

template <typename Call> static void cost(const char *what, Call call)
{
    if (!is_wanted(what))
        return;
    std::vector<double> batches;
    const int count = 20000;
    for (int i = 0; i < 1000; i++)
        call();
    for (int b = 0; b < 9; b++) {
        double begin = now_ns();
        for (int i = 0; i < count; i++)
            call();
        batches.push_back((now_ns() - begin) / count);
    }
    std::sort(batches.begin(), batches.end());
    printf("%-44s %8.1f ns (%.1f to %.1f)\n", what, batches[4], batches[0], batches[8]);
}

static unsigned long long ticks()
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    unsigned long long value;
    asm volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#endif
}

int main(int, char **argv)
{
    wanted = argv + 1;
    CUcontext context;
    CUdevice device;
    CUstream stream;
    CUevent event;
    CUstreamCaptureStatus status;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    unsigned long long id;
    struct timespec now;
    pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    CUdeviceptr block;
    cudaFree(0);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    cuCtxGetCurrent(&context);
    for (int round = 0; round < 2; round++) {
        cost("cudaFree(0): the runtime's own doorway", [&] { cudaFree(0); });
        cost("cuCtxGetCurrent", [&] { cuCtxGetCurrent(&context); });
        cost("cuCtxGetDevice", [&] { cuCtxGetDevice(&device); });
        cost("cuCtxSynchronize, idle", [&] { cuCtxSynchronize(); });
        cost("cuStreamSynchronize(legacy), idle", [&] { cuStreamSynchronize(0); });
        cost("cuStreamQuery(legacy), idle", [&] { cuStreamQuery(0); });
        cost("cuStreamIsCapturing(stream)", [&] { cuStreamIsCapturing(stream, &status); });
        cost("cuStreamIsCapturing(legacy)", [&] { cuStreamIsCapturing(0, &status); });
        cost("cuStreamGetId(stream)", [&] { cuStreamGetId(stream, &id); });
        cost("cuEventRecord", [&] { cuEventRecord(event, stream); });
        cost("cuEventQuery", [&] { cuEventQuery(event); });
        cost("cuCtxRecordEvent", [&] { cuCtxRecordEvent(context, event); });
        cost("cuThreadExchangeStreamCaptureMode",
             [&] { cuThreadExchangeStreamCaptureMode(&mode); });
        cost("processor ticks", [&] { ticks(); });
        cost("clock_gettime(MONOTONIC)", [&] { clock_gettime(CLOCK_MONOTONIC, &now); });
        cost("rwlock read, unlock",
             [&] { pthread_rwlock_rdlock(&gate), pthread_rwlock_unlock(&gate); });
        cost("mutex lock, unlock", [&] { pthread_mutex_lock(&lock), pthread_mutex_unlock(&lock); });
        if (round == 0) {
            printf("-- after a live small allocation\n");
            cuMemAlloc(&block, 256);
        }
    }
    return 0;
}
