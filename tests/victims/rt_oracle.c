/* Random operations of four threads over eight streams, in an order that is right by itself: the
 * simulated driver counts the hazards. usage: rt_oracle [operations] [seed]
 *
 * All work on a block is behind its event, or, where it is loose, waited for by its cudaFree.
 * Blocks and streams are everybody's; a lock that is held is passed by, so nobody waits for a lock.
 */
#include "victim.h"
#include "victim_sim.h"

#include <sched.h>

enum { THREADS = 4, STREAMS = 8, BLOCKS = 96 };

static struct block {
    pthread_mutex_t lock;
    char *start; /* NULL: none */
    size_t bytes;
    int ordered; /* cudaMallocAsync */
    int loose;   /* work that the event is not behind */
    cudaEvent_t used;
} block[BLOCKS];

static struct {
    pthread_mutex_t lock;
    cudaStream_t handle;
} stream[STREAMS];

static pthread_rwlock_t captures = PTHREAD_RWLOCK_INITIALIZER; /* shared: one is in progress */
static long operations = 10000, refused, graphs;

/* A stream that this thread has until stream_leave; -1: none now. */
static int stream_enter(uint64_t *random, int first)
{
    for (int i = 0; i < STREAMS; i++) {
        int s = first + (int)roll(random, (unsigned)(STREAMS - first));
        if (pthread_mutex_trylock(&stream[s].lock) == 0)
            return s;
    }
    return -1;
}

static void stream_leave(int s)
{
    pthread_mutex_unlock(&stream[s].lock);
}

static struct block *block_enter(uint64_t *random, int alive)
{
    for (int i = 0; i < 8; i++) {
        struct block *b = &block[roll(random, BLOCKS)];
        if (pthread_mutex_trylock(&b->lock) != 0)
            continue;
        if ((b->start != NULL) == alive)
            return b;
        pthread_mutex_unlock(&b->lock);
    }
    return NULL;
}

static void block_leave(struct block *b)
{
    if (b != NULL)
        pthread_mutex_unlock(&b->lock);
}

static void touch(uint64_t *random, const struct block *b, cudaStream_t s)
{
    size_t from = roll(random, 2) == 0 ? 0 : roll(random, (unsigned)b->bytes);
    kernel_touch(s, 1000 + roll(random, 300000), b->start + from, b->bytes - from,
                 (int)roll(random, 2));
}

/* Whether there was memory: the card may be full. */
static int granted(cudaError_t result)
{
    if (result == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
        return 0;
    }
    MUST(result);
    return 1;
}

static void take_bytes(uint64_t *random, struct block *b, cudaStream_t s, size_t bytes, int ordered)
{
    b->bytes = bytes;
    b->ordered = ordered;
    b->loose = 0;
    if (!granted(b->ordered ? cudaMallocAsync((void **)&b->start, b->bytes, s)
                            : cudaMalloc((void **)&b->start, b->bytes))) {
        b->start = NULL;
        return;
    }
    kernel_write(s, 1000 + roll(random, 300000), b->start, b->bytes);
    MUST(cudaEventRecord(b->used, s));
}

static void take(uint64_t *random, struct block *b, cudaStream_t s)
{
    unsigned large = roll(random, 400) == 0 ? 40u << 20 : 0;
    size_t bytes = ((size_t)64 << roll(random, 16)) + roll(random, 4096) + large;
    take_bytes(random, b, s, bytes, roll(random, 2) == 0);
}

static void give(uint64_t *random, struct block *b, cudaStream_t s)
{
    int mixed = roll(random, 4) == 0 && !b->loose;
    if (b->ordered != mixed) {
        MUST(cudaStreamWaitEvent(s, b->used, 0));
        MUST(cudaFreeAsync(b->start, s));
    } else {
        MUST(cudaFree(b->start));
    }
    b->start = NULL;
}

static void use(uint64_t *random, struct block *b, cudaStream_t s)
{
    MUST(cudaStreamWaitEvent(s, b->used, 0));
    touch(random, b, s);
    if (!b->ordered && roll(random, 4) == 0)
        b->loose = 1;
    else
        MUST(cudaEventRecord(b->used, s));
}

static void copy(uint64_t *random, struct block *to, cudaStream_t s)
{
    struct block *from = block_enter(random, 1);
    size_t bytes = from != NULL && from->bytes < to->bytes ? from->bytes : to->bytes;
    char host[64];
    size_t seen = to->bytes < sizeof(host) ? to->bytes : sizeof(host); /* shortened ones are less */
    MUST(cudaStreamWaitEvent(s, to->used, 0));
    bytes = bytes < 8192 ? bytes : 8192;
    if (from == NULL) {
        MUST(cudaMemsetAsync(to->start, 7, bytes, s));
    } else {
        MUST(cudaStreamWaitEvent(s, from->used, 0));
        MUST(cudaMemcpyAsync(to->start, from->start, bytes, cudaMemcpyDeviceToDevice, s));
        MUST(cudaEventRecord(from->used, s));
    }
    MUST(cudaEventRecord(to->used, s));
    if (roll(random, 16) == 0) {
        MUST(cudaEventSynchronize(to->used)); /* the legacy stream is not behind it */
        MUST(cudaMemcpy(host, to->start, seen, cudaMemcpyDeviceToHost));
    }
    block_leave(from);
}

static void wait_somehow(uint64_t *random, cudaStream_t s)
{
    size_t free_bytes, total;
    unsigned how = roll(random, 32);
    if (how < 3)
        MUST(cudaStreamSynchronize(s));
    else if (how < 4 && pthread_rwlock_trywrlock(&captures) == 0) {
        MUST(cudaDeviceSynchronize());
        pthread_rwlock_unlock(&captures);
    } else
        MUST(cudaMemGetInfo(&free_bytes, &total));
}

/* Freed on a stream, which then asks for a little less. */
static void shorten(uint64_t *random, struct block *b, cudaStream_t s)
{
    size_t bytes = b->bytes - roll(random, (unsigned)(b->bytes / 8 + 1));
    if (!b->ordered) {
        use(random, b, s);
        return;
    }
    MUST(cudaStreamWaitEvent(s, b->used, 0));
    MUST(cudaFreeAsync(b->start, s));
    take_bytes(random, b, s, bytes, 1);
}

/* By the driver, for which no context need be current. */
static void destroy_without_context(cudaStream_t handle)
{
    CUcontext context;
    CUresult (*pop)(CUcontext *) = (CUresult(*)(CUcontext *))sim_function("cuCtxPopCurrent_v2");
    CUresult (*push)(CUcontext) = (CUresult(*)(CUcontext))sim_function("cuCtxPushCurrent_v2");
    CUresult (*destroy)(CUstream) = (CUresult(*)(CUstream))sim_function("cuStreamDestroy_v2");
    if (pop(&context) != CUDA_SUCCESS || destroy((CUstream)handle) != CUDA_SUCCESS ||
        push(context) != CUDA_SUCCESS)
        exit(3);
}

/* A stream ends, while its work goes on; the next one may have its handle, and asks for as much as
 * was freed on it last. */
static void renew(uint64_t *random, struct block *b, int s)
{
    size_t bytes = b != NULL && b->start != NULL && b->ordered ? b->bytes : 0;
    if (bytes > 0) {
        MUST(cudaStreamWaitEvent(stream[s].handle, b->used, 0));
        MUST(cudaFreeAsync(b->start, stream[s].handle));
    }
    if (roll(random, 2) == 0)
        destroy_without_context(stream[s].handle);
    else
        MUST(cudaStreamDestroy(stream[s].handle));
    MUST(cudaStreamCreateWithFlags(&stream[s].handle,
                                   s < 2 ? cudaStreamDefault : cudaStreamNonBlocking));
    if (bytes > 0)
        take_bytes(random, b, stream[s].handle, bytes, 1);
}

static int step(uint64_t *random, int capturing);

/* Kernels on a block and memory of its own become a graph, while other operations go on. */
static int capture(uint64_t *random, struct block *b)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    void *own;
    int s = stream_enter(random, 2); /* a blocking one would be spoiled by the legacy stream */
    if (s < 0)
        return 0;
    while (pthread_rwlock_tryrdlock(&captures) != 0)
        sched_yield();
    MUST(cudaStreamBeginCapture(stream[s].handle, cudaStreamCaptureModeRelaxed));
    for (unsigned i = roll(random, 4); i > 0; i--) {
        touch(random, b, stream[s].handle);
        step(random, 1);
    }
    if (roll(random, 2) == 0 && granted(cudaMallocAsync(&own, 5000, stream[s].handle)))
        MUST(cudaFreeAsync(own, stream[s].handle));
    MUST(cudaStreamEndCapture(stream[s].handle, &graph));
    pthread_rwlock_unlock(&captures);
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    MUST(cudaStreamWaitEvent(stream[s].handle, b->used, 0));
    for (unsigned i = roll(random, 3); i > 0; i--)
        MUST(cudaGraphLaunch(exec, stream[s].handle));
    MUST(cudaEventRecord(b->used, stream[s].handle));
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
    stream_leave(s);
    __atomic_add_fetch(&graphs, 1, __ATOMIC_RELAXED);
    return 1;
}

/* Returns whether anything was done. */
static int step(uint64_t *random, int capturing)
{
    unsigned how = roll(random, 1000);
    int s = stream_enter(random, 0), done = s >= 0;
    struct block *b = block_enter(random, how >= 350);
    if (done && how >= 930 && how < 980)
        wait_somehow(random, stream[s].handle);
    else if (done && how >= 980 && how < 987)
        renew(random, b, s);
    else if (done && b != NULL && how < 930)
        (how < 350   ? take
         : how < 650 ? give
         : how < 790 ? use
         : how < 860 ? copy
                     : shorten)(random, b, stream[s].handle);
    else
        done = 0;
    if (s >= 0)
        stream_leave(s);
    if (how >= 994 && !capturing && b != NULL)
        done = capture(random, b);
    block_leave(b);
    return done;
}

static void *work(void *seed)
{
    uint64_t random = *(uint64_t *)seed;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    MUST(cudaSetDevice(0));
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    for (long i = 0; i < operations / THREADS;)
        i += step(&random, 0);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS];
    uint64_t seed[THREADS], first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    operations = argc > 1 ? atol(argv[1]) : operations;
    for (int i = 0; i < BLOCKS; i++) {
        pthread_mutex_init(&block[i].lock, NULL);
        MUST(cudaEventCreateWithFlags(&block[i].used, cudaEventDisableTiming));
    }
    for (int s = 0; s < STREAMS; s++) {
        pthread_mutex_init(&stream[s].lock, NULL);
        MUST(cudaStreamCreateWithFlags(&stream[s].handle,
                                       s < 2 ? cudaStreamDefault : cudaStreamNonBlocking));
    }
    for (int i = 0; i < THREADS; i++) {
        seed[i] = first * THREADS + (uint64_t)i;
        pthread_create(&thread[i], NULL, work, &seed[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < BLOCKS; i++)
        MUST(cudaFree(block[i].start));
    MUST(cudaDeviceSynchronize());
    fprintf(stderr, "rt_oracle: %ld graphs, %ld allocations refused\n", graphs, refused);
    printf("hazards %d\n", hazards());
    return 0;
}
