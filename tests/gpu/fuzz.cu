/* fuzz.cu - random valid programs, and what CUDA answers them: the same seed must give the same log without the library
 * and with it in every mode.
 *
 * usage: fuzz [--log] [SEED [OPERATIONS]]        the time; 4000. --log: every line, else a hash of each 1000 and the last
 *
 * Two to four threads, each with seven streams (blocking, three non-blocking, of which one is destroyed and made again,
 * per-thread, legacy, default) and up to 24 blocks, in epochs of 2000 operations that end with cudaDeviceReset. Each
 * operation is one of: a block allocated (cudaMalloc, cudaMallocAsync), filled, verified, copied, set, read, written,
 * freed; a graph captured (with memory of its own, with a second stream, with calls beside it) or launched; blocks put
 * into a box for another thread; waits; figures and attributes; calls that fail. At most one context beside the primary
 * one in an epoch. Every 50 operations all threads meet on the host: boxes change hands, and one thread alone frees
 * twice. No GPU work is waited for there.
 *
 * Logged is only what is certain natively: result codes, alignment to 512 bytes, what attributes say. Patterns must
 * always be right. A block is used behind its last use: on the same stream, or on one that waits for an event. Freed
 * are cudaMalloc's by cudaFree, which by itself waits (or, deferred, does not give the memory to others before that
 * use is over), or by cudaFreeAsync behind the last use; cudaMallocAsync's by cudaFreeAsync behind the last use or by
 * cudaFree after the host has waited for it. What is freed twice is so while no other thread allocates; never by
 * cudaFreeAsync for a cudaMalloc block, which hangs natively. Captures are thread-local or relaxed, on non-blocking
 * streams; no call that waits for the context is made beside one.
 *
 * Exit 0; 1: wrong bytes (or, simulated, hazards); 2: a call failed that must not.
 *
 * It is C and C++ alike: nvcc compiles it for a GPU, a C compiler for the simulated driver.
 * What it leaves out: peers, several devices, managed memory, IPC, global captures, host callbacks.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef __CUDACC__
#    include <dlfcn.h>
#    include "../runtime/cuda_runtime_min.h"
#endif
#include "fuzz_device.h"

enum { THREADS_MOST = 4, HELD = 24, BOX = 8, EPOCH = 2000, BURST = 50, HASHED = 1000, LAST = 10 };
enum { BLOCKING, SHORT_LIVED, NON_BLOCKING, FORKED, PER_THREAD, LEGACY, DEFAULT, STREAMS, NONE = STREAMS };
enum { PLAIN, ORDERED, OF_GRAPH };

static const char *const kind_names[] = {"plain", "ordered", "graph's"};

struct block {
    unsigned *words; /* NULL: none */
    size_t bytes, count; /* count: words that have a pattern */
    unsigned key, step;
    int kind, stream; /* of its last use; NONE: that is behind `used` */
    cudaEvent_t used;
};

struct graph {
    cudaGraph_t graph;
    cudaGraphExec_t exec; /* NULL: none */
    struct block *block;  /* that it fills; NULL: it is launched no more */
    unsigned key, step;
    struct block own;  /* memory that outlives the launch; words NULL: none */
    struct block *got; /* that memory, in use */
    void *memory[2];   /* all that it has */
    unsigned memories;
};

struct worker {
    pthread_t thread;
    unsigned index, epoch, operations, operation;
    uint64_t random;
    cudaStream_t stream[STREAMS];
    cudaEvent_t fork, join;
    CUcontext primary;
    struct block block[HELD], box[BOX];
    struct block *pinned; /* not to be freed: a capture is using it */
    unsigned boxed;
    bool capturing; /* the non-blocking streams are not to be used */
    struct graph graph;
    struct found found;
    unsigned *slot_operation, slot;
    unsigned words[256]; /* on the host */
    uint64_t wrong;
    char *text; /* the log */
    size_t length, room;
};

static struct worker workers[THREADS_MOST];
static unsigned thread_count;
static size_t card_bytes;
static pthread_barrier_t meeting;
static pthread_rwlock_t captures = PTHREAD_RWLOCK_INITIALIZER; /* shared: one is in progress */

/* --- chance and the log ------------------------------------------------------------------------------- */

static uint64_t mixed(uint64_t x) /* splitmix64 */
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static unsigned roll(struct worker *w, unsigned below)
{
    w->random = mixed(w->random);
    return (unsigned)(w->random >> 33) % below;
}

static void say(struct worker *w, const char *format, ...)
{
    va_list arguments;
    if (w->room - w->length < 300) {
        w->room = 2 * w->room + 4096;
        w->text = (char *)realloc(w->text, w->room);
    }
    w->length += (size_t)sprintf(w->text + w->length, "%u.%u %u ", w->epoch, w->index, w->operation);
    va_start(arguments, format);
    w->length += (size_t)vsnprintf(w->text + w->length, 200, format, arguments);
    va_end(arguments);
    w->text[w->length++] = '\n';
}

/* A call that may fail: its result, and what the runtime remembers of it. */
static bool asked(struct worker *w, const char *what, cudaError_t result)
{
    cudaError_t last = cudaGetLastError();
    if (last == cudaSuccess)
        say(w, "%s -> %d", what, (int)result);
    else
        say(w, "%s -> %d, last %d", what, (int)result, (int)last);
    return result == cudaSuccess;
}

#define ASK(w, call) asked(w, #call, call)
#define DRIVER(w, call) say(w, "%s -> %d", #call, (int)(call))

/* --- blocks and streams --------------------------------------------------------------------------------- */

/* The legacy stream waits for all blocking ones and they for it, so it is seldom the one. */
static int stream_any(struct worker *w)
{
    static const int often[16] = {BLOCKING,    BLOCKING,     BLOCKING,     BLOCKING,     SHORT_LIVED, SHORT_LIVED,
                                  SHORT_LIVED, NON_BLOCKING, NON_BLOCKING, NON_BLOCKING, FORKED,      FORKED,
                                  PER_THREAD,  PER_THREAD,   LEGACY,       DEFAULT};
    int s = often[roll(w, 16)];
    return w->capturing && (s == SHORT_LIVED || s == NON_BLOCKING || s == FORKED) ? BLOCKING : s;
}

static struct block *block_any(struct worker *w, bool live)
{
    unsigned first = roll(w, HELD);
    for (unsigned i = 0; i < HELD; i++) {
        struct block *b = &w->block[(first + i) % HELD];
        if ((b->words != NULL) == live && (!live || b != w->pinned))
            return b;
    }
    return NULL;
}

static void settle(struct worker *w, struct block *b)
{
    if (b->stream != NONE)
        CHECK(cudaEventRecord(b->used, w->stream[b->stream]));
    b->stream = NONE;
}

/* What follows on the stream comes after all uses of the block. */
static void use_on(struct worker *w, struct block *b, int s)
{
    if (b->stream == s)
        return;
    settle(w, b);
    CHECK(cudaStreamWaitEvent(w->stream[s], b->used, 0));
    b->stream = s;
}

static void host_waits(struct worker *w, struct block *b)
{
    settle(w, b);
    CHECK(cudaEventSynchronize(b->used));
}

static void device_wait(struct worker *w)
{
    pthread_rwlock_wrlock(&captures);
    ASK(w, cudaDeviceSynchronize());
    pthread_rwlock_unlock(&captures);
}

static void maybe_delay(struct worker *w, unsigned one_in, int s)
{
    if (roll(w, one_in) == 0)
        device_delay(w->stream[s], 10 + roll(w, 190));
}

static void pattern_make(struct worker *w, unsigned *key, unsigned *step)
{
    *key = (unsigned)mixed(w->random ^ ((uint64_t)w->index << 56) ^ w->operation);
    *step = 2654435761u;
}

static void fill(struct worker *w, struct block *b, int s)
{
    use_on(w, b, s);
    pattern_make(w, &b->key, &b->step);
    device_fill(w->stream[s], b->words, b->count, b->key, b->step);
}

static unsigned slot_take(struct worker *w)
{
    if (w->slot + 1 < w->found.slots)
        w->slot++;
    w->slot_operation[w->slot] = w->operation;
    return w->slot;
}

static void verify(struct worker *w, struct block *b, int s)
{
    use_on(w, b, s);
    device_verify(w->stream[s], b->words, b->count, b->key, b->step, &w->found, slot_take(w));
}

/* 1 byte to 8 MiB, seldom 40; a tail that is no word has no pattern. */
static void size_make(struct worker *w, struct block *b)
{
    size_t most = (size_t)64 << roll(w, 16);
    b->count = roll(w, 16) == 0 ? 1 + roll(w, 64) : most - roll(w, (unsigned)most / 2);
    if (roll(w, 200) == 0)
        b->count = (10 << 20) + roll(w, 100000);
    b->bytes = b->count * 4 + roll(w, 4);
}

static void block_end(struct worker *w, struct block *b)
{
    CHECK(cudaEventDestroy(b->used));
    b->words = NULL;
    if (w->graph.block == b)
        w->graph.block = NULL;
    if (w->graph.got == b)
        w->graph.got = NULL;
}

static void free_block(struct worker *w, struct block *b)
{
    unsigned how = roll(w, 8);
    int s = stream_any(w);
    char what[100];
    cudaError_t result;
    if (b->kind == PLAIN ? how < 6 : how == 0) {
        if (b->kind != PLAIN) /* such a free waits for nothing */
            host_waits(w, b);
        result = cudaFree(b->words);
        s = NONE;
    } else {
        if (b->kind == PLAIN && s == SHORT_LIVED) /* it is given back when the stream is synchronised */
            s = PER_THREAD;
        use_on(w, b, s);
        maybe_delay(w, 4, s);
        result = cudaFreeAsync(b->words, w->stream[s]);
    }
    snprintf(what, sizeof(what), "free %s %zu s%d", kind_names[b->kind], b->bytes, s);
    asked(w, what, result);
    block_end(w, b);
}

/* --- operations on blocks ----------------------------------------------------------------------------- */

static void op_free(struct worker *w)
{
    struct block *b = block_any(w, true);
    if (b == NULL)
        return;
    if (roll(w, 2) == 0)
        verify(w, b, stream_any(w));
    free_block(w, b);
}

static void op_allocate(struct worker *w)
{
    struct block *b = block_any(w, false);
    char what[100];
    int s = stream_any(w);
    if (b == NULL) {
        op_free(w);
        return;
    }
    size_make(w, b);
    b->kind = roll(w, 2) ? PLAIN : ORDERED;
    cudaError_t result = b->kind == PLAIN ? cudaMalloc((void **)&b->words, b->bytes)
                                          : cudaMallocAsync((void **)&b->words, b->bytes, w->stream[s]);
    snprintf(what, sizeof(what), "%s %zu s%d", kind_names[b->kind], b->bytes, s);
    if (!asked(w, what, result)) {
        b->words = NULL;
        return;
    }
    if ((uintptr_t)b->words % 512 != 0)
        say(w, "not aligned");
    CHECK(cudaEventCreateWithFlags(&b->used, cudaEventDisableTiming));
    b->stream = s;
    maybe_delay(w, 4, s);
    fill(w, b, s);
    maybe_delay(w, 3, s);
    verify(w, b, s);
}

static void op_use(struct worker *w)
{
    struct block *b = block_any(w, true);
    int s = stream_any(w);
    if (b == NULL)
        return;
    verify(w, b, s);
    maybe_delay(w, 6, s);
    if (roll(w, 2) == 0) {
        fill(w, b, s);
        verify(w, b, stream_any(w));
    }
}

static void op_copy(struct worker *w)
{
    struct block *to = block_any(w, true), *from = block_any(w, true);
    int s = stream_any(w);
    if (to == NULL || from == to || from->count < to->count)
        return;
    use_on(w, from, s);
    use_on(w, to, s);
    ASK(w, cudaMemcpyAsync(to->words, from->words, to->count * 4, cudaMemcpyDeviceToDevice, w->stream[s]));
    to->key = from->key;
    to->step = from->step;
    verify(w, to, stream_any(w));
}

static void op_set(struct worker *w)
{
    struct block *b = block_any(w, true);
    int s = stream_any(w);
    if (b == NULL)
        return;
    use_on(w, b, s);
    b->key = (1 + roll(w, 255)) * 0x01010101u;
    b->step = 0;
    ASK(w, cudaMemsetAsync(b->words, (int)(b->key & 255), b->count * 4, w->stream[s]));
    verify(w, b, s);
}

/* A copy to the host of a part, or of a pattern made there. */
static void op_host(struct worker *w)
{
    struct block *b = block_any(w, true);
    unsigned *words = w->words, first, length;
    if (b == NULL)
        return;
    length = b->count < 256 ? (unsigned)b->count : 256;
    if (b->count == length && roll(w, 2) == 0) {
        int s = stream_any(w);
        use_on(w, b, s);
        pattern_make(w, &b->key, &b->step);
        for (unsigned i = 0; i < length; i++)
            words[i] = pattern_word(b->key, b->step, i);
        ASK(w, cudaMemcpyAsync(b->words, words, length * 4, cudaMemcpyHostToDevice, w->stream[s]));
        return;
    }
    first = roll(w, (unsigned)b->count - length + 1);
    host_waits(w, b);
    ASK(w, cudaMemcpy(words, b->words + first, length * 4, cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < length; i++) {
        bool right = words[i] == pattern_word(b->key, b->step, first + i);
        if (!right)
            say(w, "WRONG on the host");
        w->wrong += !right;
    }
}

/* Another thread's at the next meeting. */
static void op_give(struct worker *w)
{
    struct block *b = block_any(w, true);
    if (b == NULL || b->kind == OF_GRAPH || w->boxed == BOX)
        return;
    if (w->graph.block == b)
        w->graph.block = NULL;
    settle(w, b);
    w->box[w->boxed++] = *b;
    b->words = NULL;
}

static void box_take(struct worker *w, struct worker *from)
{
    for (unsigned i = 0; i < from->boxed; i++) {
        struct block *place = block_any(w, false), b = from->box[i];
        if (roll(w, 2) == 0)
            verify(w, &b, stream_any(w));
        if (place != NULL && roll(w, 2) == 0)
            *place = b;
        else
            free_block(w, &b);
    }
    from->boxed = 0;
}

/* --- graphs ----------------------------------------------------------------------------------------------- */

static void graph_drop(struct worker *w)
{
    struct graph *g = &w->graph;
    if (g->got != NULL)
        free_block(w, g->got);
    if (g->exec == NULL)
        return;
    if (SIMULATED && g->memories > 0) /* which does not keep it until the work is done */
        device_wait(w);
    while (g->memories > 0)
        oracle_end(g->memory[--g->memories]);
    ASK(w, cudaGraphExecDestroy(g->exec));
    ASK(w, cudaGraphDestroy(g->graph));
    memset(g, 0, sizeof(*g));
}

/* Memory of the graph's own: filled and verified in it; freed there, or left to the program. */
static void capture_memory(struct worker *w, cudaStream_t stream, struct block *own, bool kept)
{
    size_make(w, own);
    own->kind = OF_GRAPH;
    pattern_make(w, &own->key, &own->step);
    if (!ASK(w, cudaMallocAsync((void **)&own->words, own->bytes, stream))) {
        own->words = NULL;
        return;
    }
    oracle_begin(own->words, own->bytes);
    w->graph.memory[w->graph.memories++] = own->words;
    device_fill(stream, own->words, own->count, own->key, own->step);
    device_verify(stream, own->words, own->count, own->key, own->step, &w->found, slot_take(w));
    if (!kept) {
        ASK(w, cudaFreeAsync(own->words, stream));
        own->words = NULL;
    }
}

/* A second stream joins the capture, verifies the same block, and has memory of its own. */
static void capture_fork(struct worker *w, cudaStream_t stream, const struct block *b)
{
    struct graph *g = &w->graph;
    struct block own;
    CHECK(cudaEventRecord(w->fork, stream));
    CHECK(cudaStreamWaitEvent(w->stream[FORKED], w->fork, 0));
    device_verify(w->stream[FORKED], b->words, b->count, g->key, g->step, &w->found, slot_take(w));
    if (roll(w, 2) == 0)
        capture_memory(w, w->stream[FORKED], &own, false);
    device_verify(stream, b->words, b->count, g->key, g->step, &w->found, slot_take(w));
    CHECK(cudaEventRecord(w->join, w->stream[FORKED]));
    CHECK(cudaStreamWaitEvent(stream, w->join, 0));
}

/* Calls that have nothing to do with the capture, on streams that are not in it. */
static void beside_capture(struct worker *w)
{
    for (unsigned i = roll(w, 4); i > 0; i--) {
        unsigned how = roll(w, 3);
        (how == 0 ? op_allocate : how == 1 ? op_free : op_use)(w);
    }
}

static void capture_nodes(struct worker *w, int s, struct block *b, bool relaxed)
{
    struct graph *g = &w->graph;
    cudaStream_t stream = w->stream[s];
    device_fill(stream, b->words, b->count, g->key, g->step);
    if (relaxed)
        beside_capture(w);
    if (roll(w, 2) == 0)
        capture_memory(w, stream, &g->own, roll(w, 2) == 0);
    if (roll(w, 2) == 0)
        capture_fork(w, stream, b);
    maybe_delay(w, 4, s);
    if (relaxed)
        beside_capture(w);
    device_verify(stream, b->words, b->count, g->key, g->step, &w->found, slot_take(w));
}

/* No event of a block may be recorded in a capture. */
static void settle_all(struct worker *w, int first, int last)
{
    for (unsigned i = 0; i < HELD; i++)
        if (w->block[i].words != NULL && w->block[i].stream >= first && w->block[i].stream <= last)
            settle(w, &w->block[i]);
}

/* The graph's own memory is a block from the launch on; then there is no second launch. */
static void graph_memory_got(struct worker *w, int s)
{
    struct graph *g = &w->graph;
    struct block *place = block_any(w, false);
    g->block = NULL;
    if (place == NULL) {
        ASK(w, cudaFreeAsync(g->own.words, w->stream[s]));
        return;
    }
    *place = g->own;
    place->stream = s;
    CHECK(cudaEventCreateWithFlags(&place->used, cudaEventDisableTiming));
    g->got = place;
    verify(w, place, stream_any(w));
}

static void op_launch(struct worker *w)
{
    struct graph *g = &w->graph;
    int s = stream_any(w);
    if (g->exec == NULL || g->block == NULL)
        return;
    verify(w, g->block, s);
    if (!ASK(w, cudaGraphLaunch(g->exec, w->stream[s])))
        return;
    g->block->key = g->key;
    g->block->step = g->step;
    if (roll(w, 2) == 0)
        verify(w, g->block, stream_any(w));
    if (g->own.words != NULL)
        graph_memory_got(w, s);
    else if (roll(w, 4) == 0)
        free_block(w, g->block);
}

static void op_capture(struct worker *w)
{
    struct graph *g = &w->graph;
    struct block *b;
    bool relaxed = roll(w, 2) == 0;
    int s = roll(w, 2) == 0 ? NON_BLOCKING : SHORT_LIVED;
    graph_drop(w);
    b = block_any(w, true);
    if (b == NULL)
        return;
    settle_all(w, SHORT_LIVED, FORKED);
    pattern_make(w, &g->key, &g->step);
    w->pinned = b;
    w->capturing = true;
    pthread_rwlock_rdlock(&captures);
    bool good = ASK(w, cudaStreamBeginCapture(w->stream[s], relaxed ? cudaStreamCaptureModeRelaxed
                                                                    : cudaStreamCaptureModeThreadLocal));
    if (good) {
        capture_nodes(w, s, b, relaxed);
        good = ASK(w, cudaStreamEndCapture(w->stream[s], &g->graph));
    }
    pthread_rwlock_unlock(&captures);
    w->capturing = false;
    w->pinned = NULL;
    good = good && ASK(w, cudaGraphInstantiate(&g->exec, g->graph, 0));
    if (!good)
        memset(g, 0, sizeof(*g));
    else
        g->block = b;
    if (good && roll(w, 3) != 0)
        op_launch(w);
}

/* --- waits, figures, failures ----------------------------------------------------------------------------- */

/* Its work goes on; a new stream may get its handle. */
static void op_renew(struct worker *w)
{
    settle_all(w, SHORT_LIVED, SHORT_LIVED);
    ASK(w, cudaStreamDestroy(w->stream[SHORT_LIVED]));
    ASK(w, cudaStreamCreateWithFlags(&w->stream[SHORT_LIVED], cudaStreamNonBlocking));
}

static void op_wait(struct worker *w)
{
    struct block *b = block_any(w, true);
    int s = stream_any(w);
    switch (roll(w, 4)) {
    case 0:
        device_wait(w);
        break;
    case 1:
        if (b != NULL)
            host_waits(w, b);
        break;
    default:
        ASK(w, cudaStreamSynchronize(w->stream[s]));
    }
}

static void op_figures(struct worker *w)
{
    size_t left = 0, all = 0, bytes = 0;
    struct block *b = block_any(w, true);
    struct cudaPointerAttributes said;
    CUdeviceptr base = 0;
    if (b == NULL || roll(w, 2) == 0) {
        ASK(w, cudaMemGetInfo(&left, &all));
        say(w, "free at most all %d, all as before %d", left <= all, all == card_bytes);
        return;
    }
    unsigned *at = b->words + roll(w, (unsigned)b->count);
    memset(&said, 0, sizeof(said));
    ASK(w, cudaPointerGetAttributes(&said, at));
    say(w, "type %d, device %d, address %d", (int)said.type, said.device, said.devicePointer == at);
    if (b->kind == OF_GRAPH)
        return;
    DRIVER(w, cuMemGetAddressRange(&base, &bytes, (CUdeviceptr)(uintptr_t)at));
    say(w, "base %d, size %d", base == (CUdeviceptr)(uintptr_t)b->words, bytes == b->bytes);
}

/* An address inside a live block, so no other block's. */
static void free_inside(struct worker *w)
{
    struct block *b = block_any(w, true);
    int s = stream_any(w);
    if (b == NULL || b->kind == OF_GRAPH)
        return;
    size_t offset = b->bytes > 512 && roll(w, 2) == 0 ? 512 : b->bytes > 1 ? 1 : 0;
    if (offset == 0)
        return;
    char *inside = (char *)b->words + offset;
    if (b->kind == PLAIN)
        ASK(w, cudaFree(inside));
    else
        ASK(w, cudaFreeAsync(inside, w->stream[s]));
    verify(w, b, s);
}

static void op_failure(struct worker *w)
{
    void *p = NULL;
    int s = stream_any(w);
    switch (roll(w, 6)) {
    case 0:
        ASK(w, cudaMalloc(&p, 2 * card_bytes));
        break;
    case 1:
        ASK(w, cudaMallocAsync(&p, (size_t)1 << 45, w->stream[s]));
        break;
    case 2:
        ASK(w, cudaMalloc(&p, 0));
        say(w, "nothing %d", p == NULL);
        break;
    case 3:
        ASK(w, cudaFree(NULL));
        ASK(w, cudaFreeAsync(NULL, w->stream[s]));
        break;
    default:
        free_inside(w);
    }
}

/* No other thread is inside CUDA, so no one is given what was freed once. */
static void free_twice(struct worker *w)
{
    void *p = NULL;
    size_t bytes = 256 + roll(w, 3 << 20);
    int s = stream_any(w);
    cudaStream_t stream = w->stream[s];
    if (roll(w, 2) == 0) {
        if (!ASK(w, cudaMalloc(&p, bytes)))
            return;
        device_fill(stream, (unsigned *)p, bytes / 4, w->operation, 1);
        ASK(w, cudaFree(p));
    } else {
        if (!ASK(w, cudaMallocAsync(&p, bytes, stream)))
            return;
        device_fill(stream, (unsigned *)p, bytes / 4, w->operation, 1);
        ASK(w, cudaFreeAsync(p, stream));
        ASK(w, cudaFreeAsync(p, stream));
        if (roll(w, 2) == 0)
            ASK(w, cudaStreamSynchronize(stream));
    }
    ASK(w, cudaFree(p));
    ASK(w, cudaFree(p));
}

/* --- a context beside the primary one ----------------------------------------------------------------------- */

static void context_block(struct worker *w, CUdeviceptr *block, bool ordered)
{
    size_t words = 1 + roll(w, 1u << roll(w, 21));
    unsigned key = roll(w, 1u << 30), *ends = w->words;
    if (ordered)
        DRIVER(w, cuMemAllocAsync(block, words * 4, 0));
    else
        DRIVER(w, cuMemAlloc(block, words * 4));
    oracle_begin((void *)(uintptr_t)*block, words * 4);
    DRIVER(w, cuMemsetD32Async(*block, key, words, 0));
    DRIVER(w, cuStreamSynchronize(0));
    DRIVER(w, cuMemcpyDtoH(&ends[0], *block, 4));
    DRIVER(w, cuMemcpyDtoH(&ends[1], *block + (words - 1) * 4, 4));
    if (ends[0] != key || ends[1] != key)
        say(w, "WRONG in another context");
    w->wrong += (ends[0] != key) + (ends[1] != key);
}

static void other_context(struct worker *w)
{
    CUctxCreateParams how;
    CUcontext context = NULL;
    CUdeviceptr block[4] = {0, 0, 0, 0};
    memset(&how, 0, sizeof(how));
    DRIVER(w, cuCtxCreate(&context, &how, 0, 0));
    for (unsigned i = 0; i < 4; i++)
        context_block(w, &block[i], i == 3);
    for (unsigned i = 0; i < 4; i++)
        if (i != 2)
            oracle_end((void *)(uintptr_t)block[i]);
    DRIVER(w, cuMemFreeAsync(block[3], 0));
    DRIVER(w, cuMemFree(block[0]));
    DRIVER(w, cuStreamSynchronize(0));
    DRIVER(w, cuCtxSetCurrent(w->primary));
    DRIVER(w, cuMemFree(block[1])); /* the other context's */
    DRIVER(w, cuCtxSetCurrent(context));
    DRIVER(w, cuCtxDestroy(context)); /* with a block alive */
    DRIVER(w, cuCtxSetCurrent(w->primary));
}

/* --- threads and epochs --------------------------------------------------------------------------------------- */

static void step(struct worker *w)
{
    static const struct {
        unsigned often;
        void (*operation)(struct worker *);
    } all[] = {{300, op_allocate}, {230, op_free}, {150, op_use},   {70, op_copy},   {40, op_set},
               {50, op_host},      {40, op_give},  {15, op_capture}, {30, op_launch}, {5, op_renew},
               {20, op_wait},      {30, op_figures}, {20, op_failure}};
    unsigned which = roll(w, 1000), i = 0;
    while (which >= all[i].often)
        which -= all[i++].often;
    all[i].operation(w);
}

/* Blocks change hands while nobody works; the GPU goes on. */
static void meet(struct worker *w, unsigned burst)
{
    pthread_barrier_wait(&meeting);
    if (w->index == burst % thread_count)
        free_twice(w);
    pthread_barrier_wait(&meeting);
    box_take(w, &workers[(w->index + 1 + burst % (thread_count - 1)) % thread_count]);
    pthread_barrier_wait(&meeting);
    if (w->index == 0 && burst == 3) {
        pthread_rwlock_wrlock(&captures);
        other_context(w);
        pthread_rwlock_unlock(&captures);
    }
}

static void worker_open(struct worker *w)
{
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(NULL));
    if (cuCtxGetCurrent(&w->primary) != CUDA_SUCCESS)
        _exit(2);
    CHECK(cudaStreamCreate(&w->stream[BLOCKING]));
    for (int s = SHORT_LIVED; s <= FORKED; s++)
        CHECK(cudaStreamCreateWithFlags(&w->stream[s], cudaStreamNonBlocking));
    w->stream[PER_THREAD] = cudaStreamPerThread;
    w->stream[LEGACY] = cudaStreamLegacy;
    w->stream[DEFAULT] = NULL;
    CHECK(cudaEventCreateWithFlags(&w->fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&w->join, cudaEventDisableTiming));
    found_open(&w->found, w->index, w->operations * 8);
    w->slot_operation = (unsigned *)calloc(w->found.slots, sizeof(unsigned));
}

static void wrong_read(struct worker *w)
{
    unsigned *wrong = (unsigned *)calloc(w->found.slots, sizeof(unsigned));
    found_read(&w->found, wrong);
    for (unsigned i = 0; i < w->found.slots; i++) {
        if (wrong[i] != 0)
            say(w, "WRONG: %u words, in operation %u", wrong[i], w->slot_operation[i]);
        w->wrong += wrong[i];
    }
    free(wrong);
    free(w->slot_operation);
}

/* Ordered blocks outlive a reset natively, so they go; of the others some are left to the reset. */
static void worker_close(struct worker *w)
{
    graph_drop(w);
    for (unsigned i = 0; i < HELD; i++) {
        struct block *b = &w->block[i];
        if (b->words == NULL)
            continue;
        verify(w, b, stream_any(w));
        if (b->kind != PLAIN || roll(w, 4) != 0)
            free_block(w, b);
    }
    pthread_barrier_wait(&meeting);
    ASK(w, cudaDeviceSynchronize());
    wrong_read(w);
    if (roll(w, 2) == 0)
        ASK(w, cudaStreamDestroy(w->stream[BLOCKING]));
}

static void *work(void *argument)
{
    struct worker *w = (struct worker *)argument;
    worker_open(w);
    pthread_barrier_wait(&meeting);
    for (w->operation = 1; w->operation <= w->operations; w->operation++) {
        step(w);
        if (w->operation % BURST == 0)
            meet(w, w->operation / BURST);
    }
    pthread_barrier_wait(&meeting);
    box_take(w, &workers[(w->index + 1) % thread_count]);
    worker_close(w);
    return NULL;
}

/* One epoch: threads that come and go, and a reset. Their logs are behind one another afterwards. */
static void epoch_run(uint64_t seed, unsigned epoch)
{
    size_t left;
    thread_count = 2 + (unsigned)(mixed(seed * 1000 + epoch) % (THREADS_MOST - 1));
    pthread_barrier_init(&meeting, NULL, thread_count);
    CHECK(cudaMemGetInfo(&left, &card_bytes));
    memset(workers, 0, sizeof(workers));
    for (unsigned i = 0; i < thread_count; i++) {
        workers[i].index = i;
        workers[i].epoch = epoch;
        workers[i].operations = EPOCH / thread_count;
        workers[i].random = mixed((seed * 1000 + epoch) * THREADS_MOST + i);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            _exit(2);
    }
    for (unsigned i = 0; i < thread_count; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&meeting);
    ASK(&workers[0], cudaDeviceReset());
}

/* --- what is printed ------------------------------------------------------------------------------------------- */

static struct {
    bool whole;
    unsigned long lines;
    uint64_t hash, wrong;
    char last[LAST][300];
} output = {false, 0, 0xCBF29CE484222325u, 0, {{0}}};

static void line_print(const char *line, size_t length)
{
    for (size_t i = 0; i <= length; i++)
        output.hash = (output.hash ^ (unsigned char)line[i]) * 0x100000001B3u;
    snprintf(output.last[output.lines % LAST], sizeof(output.last[0]), "%.*s", (int)length, line);
    output.lines++;
    if (output.whole || strstr(output.last[(output.lines - 1) % LAST], "WRONG") != NULL)
        printf("%.*s\n", (int)length, line);
    else if (output.lines % HASHED == 0)
        printf("%lu lines: %016llx\n", output.lines, (unsigned long long)output.hash);
}

static void epoch_print(void)
{
    for (unsigned i = 0; i < thread_count; i++) {
        struct worker *w = &workers[i];
        for (char *line = w->text, *end; line < w->text + w->length; line = end + 1) {
            end = strchr(line, '\n');
            line_print(line, (size_t)(end - line));
        }
        output.wrong += w->wrong;
        free(w->text);
    }
    fflush(stdout);
}

static void end_print(void)
{
    unsigned long first = output.lines > LAST ? output.lines - LAST : 0;
    for (unsigned long i = first; !output.whole && i < output.lines; i++)
        printf("%s\n", output.last[i % LAST]);
    printf("%lu lines: %016llx\n", output.lines, (unsigned long long)output.hash);
}

int main(int argc, char **argv)
{
    int at = argc > 1 && strcmp(argv[1], "--log") == 0 ? 2 : 1;
    uint64_t seed = argc > at ? strtoull(argv[at], NULL, 0) : (uint64_t)time(NULL);
    unsigned operations = argc > at + 1 ? (unsigned)strtoul(argv[at + 1], NULL, 0) : 4000;
    output.whole = at == 2;
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    for (unsigned epoch = 0; epoch == 0 || epoch * EPOCH < operations; epoch++) {
        epoch_run(seed, epoch);
        epoch_print();
    }
    end_print();
    printf("wrong: %llu\n", (unsigned long long)output.wrong);
    if (device_hazards() != 0)
        printf("hazards: %d\n", device_hazards());
    return output.wrong != 0 || device_hazards() != 0;
}
