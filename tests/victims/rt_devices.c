/* Every device of the machine used by a thread of its own; blocks are freed by the next one's
 * thread. */
#include "victim.h"

enum { DEVICES_MOST = 64 };

static pthread_barrier_t step;
static void *block[DEVICES_MOST][20];
static int count, wrong[DEVICES_MOST];

static void *work(void *arg)
{
    int me = (int)(intptr_t)arg;
    struct cudaPointerAttributes attributes;
    MUST(cudaSetDevice(me));
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 20; i++) {
            MUST(cudaMalloc(&block[me][i], (size_t)(i + 1) * 3001));
            wrong[me] += !pattern_ok(block[me][i], (size_t)(i + 1) * 3001, (unsigned)(me + i));
            MUST(cudaPointerGetAttributes(&attributes, block[me][i]));
            wrong[me] += attributes.device != me;
        }
        pthread_barrier_wait(&step);
        for (int i = 0; i < 20; i++)
            wrong[me] += cudaFree(block[(me + 1) % count][i]) != cudaSuccess;
        pthread_barrier_wait(&step);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread[DEVICES_MOST];
    int all = 0;
    MUST(cudaGetDeviceCount(&count));
    pthread_barrier_init(&step, NULL, (unsigned)count);
    for (int d = 0; d < count; d++)
        pthread_create(&thread[d], NULL, work, (void *)(intptr_t)d);
    for (int d = 0; d < count; d++) {
        pthread_join(thread[d], NULL);
        all += wrong[d];
    }
    printf("devices %d, wrong %d\n", count, all);
    return 0;
}
