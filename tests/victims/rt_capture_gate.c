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

static void *look(void *other)
{
    void *block;
    MUST(cudaSetDevice(0));
    SHOW(cudaMallocAsync(&block, 100 * MIB, (cudaStream_t)other));
    return NULL;
}

/* A request that finds no memory at hand asks what has passed, which spoils no capture either. */
static void looks_in_the_middle(void)
{
    cudaStream_t other[2];
    void *block;
    pthread_t freer;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    cudaThreadExchangeStreamCaptureMode(&mode);
    MUST(cudaStreamCreateWithFlags(&other[0], cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&other[1], cudaStreamNonBlocking));
    MUST(cudaMallocAsync(&block, 5000, other[0]));
    MUST(cudaFreeAsync(block, other[0]));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    pthread_create(&freer, NULL, look, other[1]);
    pthread_join(freer, NULL);
    end("a look in the middle");
}

static void *end_elsewhere(void *unused)
{
    (void)unused;
    MUST(cudaSetDevice(0));
    end("on the wrong thread");
    return NULL;
}

static void on_a_thread(void *(*what)(void *))
{
    pthread_t thread;
    pthread_create(&thread, NULL, what, NULL);
    pthread_join(thread, NULL);
}

/* It goes on, and a free must know that. */
static void ends_on_the_wrong_thread(void)
{
    MUST(cudaMalloc(&blocks[0], 5000));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    on_a_thread(end_elsewhere);
    on_a_thread(free_it);
    end("on the right one");
}

/* Another stream ends in the middle: the capture goes on, and a free must know that. */
static void another_stream_ends(void)
{
    cudaStream_t other;
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    MUST(cudaMalloc(&blocks[0], 5000));
    begin(NULL);
    MUST(cudaStreamDestroy(other));
    on_a_thread(free_it);
    end("another stream ends");
}

/* More captures than the library can tell apart. */
static void many(void)
{
    enum { MANY = 300, ENDED = 270 };
    static cudaStream_t streams[MANY];
    cudaGraph_t graph;
    int good = 0;
    MUST(cudaMalloc(&blocks[0], 5000));
    for (int i = 0; i < MANY; i++) {
        MUST(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
        MUST(cudaStreamBeginCapture(streams[i], cudaStreamCaptureModeRelaxed));
    }
    for (int i = 0; i < MANY; i++) {
        if (i == ENDED)
            on_a_thread(free_it);
        good += cudaStreamEndCapture(streams[i], &graph) == cudaSuccess;
    }
    printf("%d of %d captures ended well\n", good, MANY);
}

/* After captures that ended in other ways a free waits the usual way again. */
static void no_capture_is_left(void)
{
    uint64_t (*calls)(const char *) = (uint64_t(*)(const char *))sim_function("vrsim_calls");
    cudaStream_t gone;
    MUST(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(gone, cudaStreamCaptureModeRelaxed));
    MUST(cudaStreamDestroy(gone));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    SHOW(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    end("begun twice");
    MUST(cudaMalloc(&blocks[0], 5000));
    uint64_t before = calls != NULL ? calls("cuCtxSynchronize") : 0;
    MUST(cudaFree(blocks[0]));
    printf("usual waits: %d\n", calls != NULL ? (int)(calls("cuCtxSynchronize") - before) : 0);
}

/* usage: rt_capture_gate [better]      where the library spoils less than the driver alone */
int main(int argc, char **argv)
{
    (void)argv;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (argc > 1) {
        no_capture_is_left();
        looks_in_the_middle();
        return 0;
    }
    begins_beside_a_wait();
    a_free_comes_while_it_begins();
    mixed_frees_in_the_middle();
    ends_on_the_wrong_thread();
    another_stream_ends();
    many();
    return 0;
}
