/* Two places that lose blocks, of sizes that are known: by threads, stream-ordered, from the driver
 * (too large for the pool's limit), across a reset of the device, in a library that is closed
 * before the end, deep in a recursion, on the smallest stack, in a handler, in a child.
 *
 * usage: rt_leaks [many|threads|reset|closed LIBRARY|deep|small|handler|fork|freed]...
 */
#include "victim.h"

#include <limits.h>
#include <signal.h>

enum { THREADS = 8, ROUNDS = 200, DEPTH = 20000 };

static int lost; /* not optimised into tail calls: each counts after its call */

__attribute__((noinline)) void lose_small(size_t bytes)
{
    void *block;
    MUST(cudaMalloc(&block, bytes));
    __atomic_fetch_add(&lost, 1, __ATOMIC_RELAXED);
}

__attribute__((noinline)) void lose_ordered(size_t bytes)
{
    void *block;
    MUST(cudaMallocAsync(&block, bytes, 0));
    __atomic_fetch_add(&lost, 1, __ATOMIC_RELAXED);
}

static __attribute__((noinline)) void lose_both(void)
{
    lose_small(1000);
    lose_small(3000);
    lose_ordered(50000);
}

static void *work(void *arg)
{
    void *block;
    MUST(cudaSetDevice(0));
    for (int i = 0; i < ROUNDS; i++) {
        MUST(cudaMalloc(&block, (size_t)i * 100 + 1));
        MUST(cudaFree(block));
    }
    lose_both();
    return arg;
}

static void in_thread(size_t stack_bytes, int count)
{
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack_bytes > 0)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], &attributes, work, NULL);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

__attribute__((noinline)) int go_deep(int depth)
{
    if (depth == 0)
        lose_small(7000);
    else
        go_deep(depth - 1);
    return __atomic_add_fetch(&lost, 1, __ATOMIC_RELAXED);
}

static void in_closed(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void (*lose)(cudaError_t(*)(void **, size_t)) =
        library == NULL ? NULL
                        : (void (*)(cudaError_t(*)(void **, size_t)))dlsym(library, "lose_in_it");
    if (lose == NULL) {
        printf("%s\n", dlerror());
        exit(3);
    }
    lose(cudaMalloc);
    printf("closed %d\n", dlclose(library));
}

static void handler(int number)
{
    (void)number;
    lose_small(300);
}

static void in_child(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        void *block;
        printf("child %d\n", (int)cudaMalloc(&block, 10));
        exit(0);
    }
    waitpid(child, NULL, 0);
}

static void freed(void)
{
    void *block;
    MUST(cudaMalloc(&block, 123456));
    MUST(cudaFree(block));
}

int main(int count, char **arguments)
{
    MUST(cudaSetDevice(0));
    for (int i = 1; i < count; i++) {
        const char *what = arguments[i];
        if (strcmp(what, "many") == 0)
            lose_both();
        else if (strcmp(what, "threads") == 0)
            in_thread(0, THREADS);
        else if (strcmp(what, "small") == 0)
            in_thread((size_t)PTHREAD_STACK_MIN, 1);
        else if (strcmp(what, "reset") == 0)
            MUST(cudaDeviceReset());
        else if (strcmp(what, "closed") == 0 && i + 1 < count)
            in_closed(arguments[++i]);
        else if (strcmp(what, "deep") == 0)
            go_deep(DEPTH);
        else if (strcmp(what, "fork") == 0)
            in_child();
        else if (strcmp(what, "freed") == 0)
            freed();
        else if (strcmp(what, "handler") == 0) {
            signal(SIGUSR1, handler);
            raise(SIGUSR1);
        }
    }
    printf("%d\n", lost);
    return 0;
}
