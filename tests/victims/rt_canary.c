/* Blocks of four threads on many streams, some short-lived, freed without waiting: on their stream,
 * on another one behind an event, and by another thread. The small brother of tests/gpu/canary.cu.
 */
#include "victim.h"
#include "victim_sim.h"

enum { THREADS = 4, STEPS = 1500, STREAMS = 4, HANDED = 8 };

struct block {
    void *start; /* NULL: none */
    size_t bytes;
    int ordered;
    cudaStream_t stream;
    cudaEvent_t used;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block handed[HANDED];
static int handed_count;

static void block_free(uint64_t *random, const struct block *block, cudaStream_t stream)
{
    if (block->ordered || roll(random, 3) == 0)
        MUST(cudaFreeAsync(block->start, stream));
    else
        MUST(cudaFree(block->start));
}

static void free_behind(uint64_t *random, const struct block *block, cudaEvent_t used,
                        cudaStream_t stream)
{
    MUST(cudaStreamWaitEvent(stream, used, 0));
    kernel_touch(stream, 1000 + roll(random, 200000), block->start, block->bytes, 0);
    block_free(random, block, stream);
}

/* Another thread will free it. */
static int hand_over(struct block *block)
{
    pthread_mutex_lock(&lock);
    int room = handed_count < HANDED;
    if (room) {
        MUST(cudaEventCreateWithFlags(&block->used, cudaEventDisableTiming));
        MUST(cudaEventRecord(block->used, block->stream));
        handed[handed_count++] = *block;
    }
    pthread_mutex_unlock(&lock);
    return room;
}

static void free_handed(uint64_t *random, cudaStream_t stream)
{
    struct block block = {0};
    pthread_mutex_lock(&lock);
    if (handed_count > 0)
        block = handed[--handed_count];
    pthread_mutex_unlock(&lock);
    if (block.start == NULL)
        return;
    free_behind(random, &block, block.used, stream);
    MUST(cudaEventDestroy(block.used));
}

static void step(uint64_t *random, cudaStream_t *stream, cudaEvent_t event)
{
    struct block block = {.bytes = ((size_t)256 << roll(random, 16)) + roll(random, 4096)};
    unsigned how = roll(random, 16);
    block.stream = stream[roll(random, STREAMS)];
    block.ordered = roll(random, 2) == 0;
    if (block.ordered)
        MUST(cudaMallocAsync(&block.start, block.bytes, block.stream));
    else
        MUST(cudaMalloc(&block.start, block.bytes));
    kernel_write(block.stream, 1000 + roll(random, 500000), block.start, block.bytes);
    if (how < 4 && hand_over(&block))
        return;
    if (how < 8) {
        MUST(cudaEventRecord(event, block.stream));
        free_behind(random, &block, event, stream[roll(random, STREAMS)]);
    } else {
        block_free(random, &block, block.stream);
    }
}

static void *work(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    cudaStream_t stream[STREAMS];
    cudaEvent_t event;
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    MUST(cudaStreamCreateWithFlags(&stream[0], cudaStreamDefault));
    MUST(cudaStreamCreateWithFlags(&stream[1], cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&stream[2], cudaStreamNonBlocking));
    stream[3] = cudaStreamPerThread;
    for (int i = 0; i < STEPS; i++) {
        step(&random, stream, event);
        free_handed(&random, stream[roll(&random, STREAMS)]);
        if (roll(&random, 64) == 0) {
            MUST(cudaStreamDestroy(stream[2])); /* its work goes on */
            MUST(cudaStreamCreateWithFlags(&stream[2], cudaStreamNonBlocking));
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t thread[THREADS];
    uint64_t random = 1;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    while (handed_count > 0)
        free_handed(&random, cudaStreamPerThread);
    MUST(cudaDeviceSynchronize());
    printf("hazards %d\n", hazards());
    return 0;
}
