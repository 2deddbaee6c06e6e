/* A thread with a small stack allocates, frees and makes the pool grow.
 *
 * usage: rt_small_stack [exit]      exit: one with the smallest stack ends the process
 */
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

static void *end(void *arg)
{
    exit(arg == NULL ? 0 : 9);
}

/* The smallest stack that glibc allows has room for its own and 16 KiB. */
static void end_on_small_stack(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
    fflush(stdout);
    pthread_create(&thread, &attributes, end, NULL);
    pause();
}

int main(int argc, char **argv)
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
    if (argc > 1 && strcmp(argv[1], "exit") == 0)
        end_on_small_stack();
    return 0;
}
