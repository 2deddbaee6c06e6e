/* A thread with a small stack allocates, frees and makes the pool grow. */
#include "victim.h"

#include <limits.h>

static void *work(void *arg)
{
    void *a, *b, *c;
    (void)arg;
    MUST(cudaSetDevice(0));
    MUST(cudaMalloc(&a, 100));
    MUST(cudaMalloc(&b, 200 * MIB));
    MUST(cudaMallocAsync(&c, 5000, 0));
    MUST(cudaFreeAsync(c, 0));
    MUST(cudaFree(b));
    MUST(cudaFree(a));
    return arg;
}

int main(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    void *result = NULL;
    int mark;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 4 * 16384);
    printf("made %d\n", pthread_create(&thread, &attributes, work, &mark));
    printf("ended %d\n", pthread_join(thread, &result));
    printf("right %d\n", result == &mark);
    return 0;
}
