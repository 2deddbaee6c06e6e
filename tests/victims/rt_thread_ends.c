/* Threads that allocate and end: others free their blocks, and a key's destructor frees the last
 * one. */
#include "victim.h"

static pthread_key_t key;
static int failed;

static void at_thread_end(void *block)
{
    failed += cudaFree(block) != cudaSuccess;
}

static void *work(void *arg)
{
    void **block = arg, *last;
    MUST(cudaSetDevice(0));
    for (int i = 0; i < 5; i++)
        MUST(cudaMalloc(&block[i], (size_t)1000 << (3 * i)));
    MUST(cudaMalloc(&last, 700));
    pthread_setspecific(key, last);
    return NULL;
}

int main(void)
{
    void *block[5];
    size_t before, after, total;
    MUST(cudaMemGetInfo(&before, &total));
    pthread_key_create(&key, at_thread_end);
    for (int round = 0; round < 100; round++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, block);
        pthread_join(thread, NULL);
        for (int i = 0; i < 5; i++)
            failed += !pattern_ok(block[i], (size_t)1000 << (3 * i), 7) + (cudaFree(block[i]) != 0);
    }
    MUST(cudaMemGetInfo(&after, &total));
    printf("failed %d, all back %d\n", failed, before == after);
    return 0;
}
