/* pair.cu - what a cudaMalloc+cudaFree pair costs, by size: alone, and beside a small block that spares
 * the driver the mapping. Also stream-ordered pairs and threads.
 *
 * usage: pair [sync|async|threads|launch]      all without an argument; launch: kernel launches, which the
 *        library should not make slower
 *
 * Prints CSV: what,bytes,threads,ns_per_pair (the median of several batches). Run with and without the
 * library by tests/gpu/bench. Exit 1 on any CUDA error.
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status_ = (call);                                                              \
        if (status_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status_));                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static double now_ns()
{
    using namespace std::chrono;
    return (double)duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

static double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/* Pairs a batch such that a batch takes about 2 ms. */
template <typename Pair> static double pair_ns(Pair pair)
{
    for (int i = 0; i < 3; i++)
        pair();
    double begin = now_ns();
    pair();
    double one = std::max(now_ns() - begin, 20.0);
    int count = (int)std::min(20000.0, std::max(3.0, 2e6 / one));
    std::vector<double> batches;
    for (int b = 0; b < 7; b++) {
        begin = now_ns();
        for (int i = 0; i < count; i++)
            pair();
        batches.push_back((now_ns() - begin) / count);
    }
    return median(batches);
}

static void sync_pairs(const char *what)
{
    for (size_t bytes = 256; bytes <= (size_t)1 << 30; bytes *= 4) {
        double ns = pair_ns([=] {
            void *block;
            CHECK(cudaMalloc(&block, bytes));
            CHECK(cudaFree(block));
        });
        printf("%s,%zu,1,%.1f\n", what, bytes, ns);
    }
}

static void async_pairs()
{
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    for (size_t bytes = 256; bytes <= (size_t)1 << 30; bytes *= 64) {
        double ns = pair_ns([=] {
            void *block;
            CHECK(cudaMallocAsync(&block, bytes, stream));
            CHECK(cudaFreeAsync(block, stream));
        });
        printf("async,%zu,1,%.1f\n", bytes, ns);
        CHECK(cudaStreamSynchronize(stream));
    }
    CHECK(cudaStreamDestroy(stream));
}

__global__ void nothing()
{
}

static void launches()
{
    double ns = pair_ns([=] {
        for (int i = 0; i < 500; i++)
            nothing<<<1, 1>>>();
        CHECK(cudaDeviceSynchronize());
    });
    printf("launch,0,1,%.1f\n", ns / 500);
}

/* All threads together for a fixed time; reports the time per pair as 1 / rate. */
static void threaded_pairs(int threads)
{
    std::vector<std::thread> workers;
    std::vector<long> counts((size_t)threads * 16);
    double end = now_ns() + 3e8, begin = now_ns();
    for (int t = 0; t < threads; t++)
        workers.emplace_back([&, t] {
            CHECK(cudaSetDevice(0));
            while (now_ns() < end) {
                void *block;
                CHECK(cudaMalloc(&block, 4096));
                CHECK(cudaFree(block));
                counts[(size_t)t * 16]++;
            }
        });
    for (auto &worker : workers)
        worker.join();
    double elapsed = now_ns() - begin;
    long total = 0;
    for (int t = 0; t < threads; t++)
        total += counts[(size_t)t * 16];
    printf("threads,4096,%d,%.1f\n", threads, elapsed / (double)total);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    void *neighbour;
    CHECK(cudaFree(0));
    if (strcmp(what, "") == 0 || strcmp(what, "sync") == 0) {
        sync_pairs("bare");
        CHECK(cudaMalloc(&neighbour, 256));
        sync_pairs("neighbour");
        CHECK(cudaFree(neighbour));
    }
    if (strcmp(what, "") == 0 || strcmp(what, "async") == 0)
        async_pairs();
    if (strcmp(what, "") == 0 || strcmp(what, "threads") == 0)
        for (int threads : {1, 4, 16})
            threaded_pairs(threads);
    if (strcmp(what, "") == 0 || strcmp(what, "launch") == 0)
        launches();
    return 0;
}
