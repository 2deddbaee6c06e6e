/* Frees at the moment when a capture begins: one that is already waiting, one that comes while the
 * capture begins, and in the middle of a capture those that allocate one way and free the other.
 * None may spoil a capture that a native free leaves alone. */
#include "victim.h"
#include "victim_sim.h"

static cudaStream_t stream;
static void *blocks[2];

static void relax(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    MUST(cudaSetDevice(0));
    cudaThreadExchangeStreamCaptureMode(&mode);
}

static void *begin(void *unused)
{
    (void)unused;
    MUST(cudaSetDevice(0));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    return NULL;
}

static void *free_it(void *unused)
{
    (void)unused;
    relax();
    MUST(cudaFree(blocks[0]));
    return NULL;
}

/* Calls of that name wait at their entry, or no longer. */
static void hold(const char *name, int held)
{
    int (*set)(const char *) =
        (int (*)(const char *))sim_function(held ? "vrsim_block" : "vrsim_unblock");
    if (set != NULL)
        set(name);
}

static void end(const char *what)
{
    cudaGraph_t graph = NULL;
    printf("%s: %s\n", what, cudaGetErrorName(cudaStreamEndCapture(stream, &graph)));
    cudaGetLastError();
}

static void begins_beside_a_wait(void)
{
    pthread_t beginner, freer;
    MUST(cudaMalloc(&blocks[0], 5000));
    hold("cuCtxSynchronize", 1);
    pthread_create(&freer, NULL, free_it, NULL);
    usleep(50000);
    pthread_create(&beginner, NULL, begin, NULL);
    usleep(50000);
    hold("cuCtxSynchronize", 0);
    pthread_join(freer, NULL);
    pthread_join(beginner, NULL);
    end("a free that waits already");
}

static void a_free_comes_while_it_begins(void)
{
    pthread_t beginner, freer;
    MUST(cudaMalloc(&blocks[0], 5000));
    hold("cuStreamBeginCapture_v2", 1);
    hold("cuCtxSynchronize", 1);
    pthread_create(&beginner, NULL, begin, NULL);
    usleep(50000);
    pthread_create(&freer, NULL, free_it, NULL);
    usleep(50000);
    hold("cuStreamBeginCapture_v2", 0);
    pthread_join(beginner, NULL);
    hold("cuCtxSynchronize", 0);
    pthread_join(freer, NULL);
    end("a free while it begins");
}

static void *free_mixed(void *other)
{
    relax();
    SHOW(cudaFree(blocks[0]));
    SHOW(cudaFreeAsync(blocks[1], (cudaStream_t)other));
    return NULL;
}

static void mixed_frees_in_the_middle(void)
{
    cudaStream_t other;
    pthread_t freer;
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaMallocAsync(&blocks[0], 5000, other));
    MUST(cudaMalloc(&blocks[1], 5000));
    begin(NULL);
    pthread_create(&freer, NULL, free_mixed, other);
    pthread_join(freer, NULL);
    end("mixed frees");
    MUST(cudaStreamDestroy(other));
}

int main(void)
{
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    begins_beside_a_wait();
    a_free_comes_while_it_begins();
    mixed_frees_in_the_middle();
    return 0;
}
