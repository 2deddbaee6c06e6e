/* canary.cu - is a block ever reused while GPU work may still touch it? Eight threads, each with five streams
 * (blocking, two non-blocking, per-thread, legacy; one of the non-blocking ones is destroyed and made again now
 * and then), for so many seconds.
 *
 * usage: canary [SECONDS [SEED]]          60 seconds; the seed is the time
 *
 * Each step allocates a block (cudaMalloc or cudaMallocAsync, 256 bytes to 8 MiB), writes a pattern that no other
 * block has, may let the stream spin for 10 to 500 us before or after, verifies the pattern, and frees the block
 * without waiting for any of this: on its stream, on another one that waits for an event, or on another thread.
 * If the block is somebody else's before the GPU is done, one of the two patterns is found broken.
 *
 * Only what CUDA defines: cudaFree of a cudaMalloc block waits by itself; cudaFreeAsync is ordered after all uses
 * of the block, of either kind; cudaFree of a cudaMallocAsync block is made only after its stream was synchronised.
 * A stream that other threads cannot name, or that may be gone by then, is handed on as an event.
 *
 * Prints "canary: N steps, M blocks, W wrong words, seed S". Exit 0: W is 0; 1: it is not; 2: a call failed.
 * What it leaves out: captures, peers, several contexts.
 */
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

enum { THREADS = 8, HELD = 8, BOX = 16 };
enum { BLOCKING, SHORT_LIVED, NON_BLOCKING, PER_THREAD, LEGACY, STREAMS };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status_ = (call);                                                              \
        if (status_ != cudaSuccess) {                                                              \
            printf("%s: %s\n", #call, cudaGetErrorName(status_));                                  \
            fflush(stdout);                                                                        \
            _exit(2); /* other threads are inside CUDA */                                          \
        }                                                                                          \
    } while (0)

struct block {
    unsigned *words; /* NULL: none */
    size_t count;
    unsigned key;
    bool ordered; /* by cudaMallocAsync */
    bool named;   /* other threads may use `stream` */
    cudaStream_t stream;
    cudaEvent_t used; /* recorded after the last use; valid in a box */
};

struct worker {
    pthread_t thread;
    unsigned index;
    unsigned long long random, steps, blocks;
    unsigned long long *wrong; /* on the device: this worker's count */
    cudaStream_t stream[STREAMS];
    cudaEvent_t event;
    struct block held[HELD];
    pthread_mutex_t lock;  /* of the box */
    struct block box[BOX]; /* blocks that others want freed here */
    unsigned boxed;
};

static struct worker workers[THREADS];
static time_t end_time;

__global__ void mark(unsigned *words, size_t count, unsigned key)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        words[i] = key + (unsigned)i * 2654435761u;
}

__global__ void verify(const unsigned *words, size_t count, unsigned key, unsigned long long *wrong)
{
    unsigned long long bad = 0;
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        bad += words[i] != key + (unsigned)i * 2654435761u;
    if (bad != 0)
        atomicAdd(wrong, bad);
}

__global__ void delay(long long cycles)
{
    long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}

static unsigned long long mixed(unsigned long long x) /* splitmix64 */
{
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

static unsigned roll(struct worker *w, unsigned below)
{
    w->random = mixed(w->random);
    return (unsigned)(w->random >> 33) % below;
}

static unsigned grid_for(size_t count)
{
    size_t blocks = (count + 1023) / 1024;
    return blocks < 64 ? (unsigned)blocks : 64;
}

static void verify_on(const struct worker *w, const struct block *b, cudaStream_t stream)
{
    verify<<<grid_for(b->count), 256, 0, stream>>>(b->words, b->count, b->key, w->wrong);
    CHECK(cudaGetLastError());
}

static void maybe_delay(struct worker *w, unsigned one_in, cudaStream_t stream)
{
    if (roll(w, one_in) != 0)
        return;
    delay<<<1, 1, 0, stream>>>(20000 + roll(w, 980000)); /* 10 to 500 us at 2 GHz */
    CHECK(cudaGetLastError());
}

/* The legacy stream waits for all blocking ones and they for it, so it is seldom the one. */
static int stream_pick(struct worker *w)
{
    static const int often[16] = {BLOCKING,     BLOCKING,     BLOCKING,   BLOCKING,   SHORT_LIVED,  SHORT_LIVED,
                                  SHORT_LIVED,  NON_BLOCKING, NON_BLOCKING, NON_BLOCKING, NON_BLOCKING, NON_BLOCKING,
                                  PER_THREAD,   PER_THREAD,   PER_THREAD, LEGACY};
    return often[roll(w, 16)];
}

static struct block block_make(struct worker *w)
{
    int which = stream_pick(w);
    size_t most = (size_t)64 << roll(w, 16); /* words: 256 bytes to 8 MiB */
    struct block b = {};
    b.count = most == 64 ? 64 : most - roll(w, (unsigned)(most / 2));
    b.key = (unsigned)mixed(w->random ^ ((unsigned long long)w->index << 56) ^ w->steps);
    b.stream = w->stream[which];
    b.named = which != PER_THREAD && which != SHORT_LIVED;
    b.ordered = roll(w, 2) == 0;
    if (b.ordered)
        CHECK(cudaMallocAsync((void **)&b.words, b.count * 4, b.stream));
    else
        CHECK(cudaMalloc((void **)&b.words, b.count * 4));
    maybe_delay(w, 4, b.stream);
    mark<<<grid_for(b.count), 256, 0, b.stream>>>(b.words, b.count, b.key);
    CHECK(cudaGetLastError());
    maybe_delay(w, 2, b.stream);
    verify_on(w, &b, b.stream);
    w->blocks++;
    return b;
}

/* All uses of the block are ordered before what is submitted to `stream` from here on. cudaFreeAsync gives a block
 * of cudaMalloc back when the stream is next synchronised, so that must come. */
static void free_on(struct worker *w, struct block *b, cudaStream_t stream)
{
    if (b->ordered || (stream != w->stream[SHORT_LIVED] && roll(w, 3) == 0))
        CHECK(cudaFreeAsync(b->words, stream));
    else
        CHECK(cudaFree(b->words));
    b->words = NULL;
}

/* The uses so far are behind `event`: another stream takes over. */
static void free_elsewhere(struct worker *w, struct block *b, cudaEvent_t event)
{
    cudaStream_t stream = w->stream[stream_pick(w)];
    CHECK(cudaStreamWaitEvent(stream, event, 0));
    maybe_delay(w, 4, stream);
    verify_on(w, b, stream);
    free_on(w, b, stream);
}

/* False: the other worker's box is full. */
static bool hand_over(struct worker *w, struct block *b)
{
    struct worker *other = &workers[(w->index + 1 + roll(w, THREADS - 1)) % THREADS];
    pthread_mutex_lock(&other->lock);
    bool room = other->boxed < BOX;
    if (room) {
        CHECK(cudaEventCreateWithFlags(&b->used, cudaEventDisableTiming));
        CHECK(cudaEventRecord(b->used, b->stream));
        other->box[other->boxed++] = *b;
        b->words = NULL;
    }
    pthread_mutex_unlock(&other->lock);
    return room;
}

static void block_free(struct worker *w, struct block *b)
{
    unsigned how = roll(w, 16);
    if (how < 4 && hand_over(w, b))
        return;
    if (how < 8) {
        CHECK(cudaEventRecord(w->event, b->stream));
        free_elsewhere(w, b, w->event);
    } else if (how == 8 && roll(w, 4) == 0) {
        CHECK(cudaStreamSynchronize(b->stream));
        CHECK(cudaFree(b->words));
        b->words = NULL;
    } else {
        free_on(w, b, b->stream);
    }
}

static void box_empty(struct worker *w)
{
    struct block taken[BOX];
    pthread_mutex_lock(&w->lock);
    unsigned count = w->boxed;
    for (unsigned i = 0; i < count; i++)
        taken[i] = w->box[i];
    w->boxed = 0;
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < count; i++) {
        if (taken[i].named && roll(w, 2) == 0)
            free_on(w, &taken[i], taken[i].stream);
        else
            free_elsewhere(w, &taken[i], taken[i].used);
        CHECK(cudaEventDestroy(taken[i].used));
    }
}

/* Verifies once more, and frees. */
static void held_free(struct worker *w, struct block *b)
{
    if (b->words == NULL)
        return;
    verify_on(w, b, b->stream);
    block_free(w, b);
}

static void all_held_free(struct worker *w)
{
    for (int i = 0; i < HELD; i++)
        held_free(w, &w->held[i]);
}

/* Its work goes on; a new stream may get its handle. No block that lives is known to be on it any more. */
static void stream_renew(struct worker *w)
{
    all_held_free(w);
    CHECK(cudaStreamDestroy(w->stream[SHORT_LIVED]));
    CHECK(cudaStreamCreateWithFlags(&w->stream[SHORT_LIVED], cudaStreamNonBlocking));
}

static void *work(void *arg)
{
    struct worker *w = (struct worker *)arg;
    while (time(NULL) < end_time) {
        struct block b = block_make(w);
        w->steps++;
        if (roll(w, 4) == 0) {
            struct block *place = &w->held[roll(w, HELD)];
            held_free(w, place);
            *place = b;
        } else {
            block_free(w, &b);
        }
        box_empty(w);
        if (roll(w, 64) == 0)
            stream_renew(w);
        if (roll(w, 128) == 0) /* so that the GPU does not fall behind for good */
            CHECK(cudaStreamSynchronize(w->stream[roll(w, STREAMS)]));
    }
    all_held_free(w);
    return NULL;
}

static void worker_make(struct worker *w, unsigned index, unsigned long long seed, unsigned long long *wrong)
{
    w->index = index;
    w->random = mixed(seed * THREADS + index);
    w->wrong = wrong + index;
    pthread_mutex_init(&w->lock, NULL);
    CHECK(cudaStreamCreate(&w->stream[BLOCKING]));
    CHECK(cudaStreamCreateWithFlags(&w->stream[SHORT_LIVED], cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&w->stream[NON_BLOCKING], cudaStreamNonBlocking));
    w->stream[PER_THREAD] = cudaStreamPerThread;
    w->stream[LEGACY] = cudaStreamLegacy;
    CHECK(cudaEventCreateWithFlags(&w->event, cudaEventDisableTiming));
}

int main(int argc, char **argv)
{
    unsigned long long seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (unsigned long long)time(NULL);
    unsigned long long *wrong, counts[THREADS], steps = 0, blocks = 0, total = 0;
    CHECK(cudaMalloc((void **)&wrong, sizeof(counts)));
    CHECK(cudaMemset(wrong, 0, sizeof(counts)));
    CHECK(cudaDeviceSynchronize());
    for (unsigned i = 0; i < THREADS; i++)
        worker_make(&workers[i], i, seed, wrong);
    end_time = time(NULL) + (argc > 1 ? atoi(argv[1]) : 60);
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            return 2;
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (unsigned i = 0; i < THREADS; i++)
        box_empty(&workers[i]);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(counts, wrong, sizeof(counts), cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < THREADS; i++) {
        steps += workers[i].steps;
        blocks += workers[i].blocks;
        total += counts[i];
    }
    printf("canary: %llu steps, %llu blocks, %llu wrong words, seed %llu\n", steps, blocks, total, seed);
    return total != 0;
}
