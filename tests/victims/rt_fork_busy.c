/* fork while other threads allocate: whatever they hold at that moment, the child must not hang. */
#include "victim.h"

static volatile int stop;

static void *hammer(void *arg)
{
    MUST(cudaSetDevice(0));
    for (unsigned i = 0; !stop; i++) {
        void *a, *b;
        MUST(cudaMalloc(&a, 1000 + i % 50 * 4000));
        MUST(cudaMallocAsync(&b, 3000, 0));
        MUST(cudaFreeAsync(b, 0));
        MUST(cudaFree(a));
    }
    return arg;
}

static int child(void)
{
    void *a = NULL;
    size_t free_bytes, total;
    int code = (int)cudaMalloc(&a, 1000) + (int)cudaFree((void *)0x200) * 7;
    return (code + (int)cudaMemGetInfo(&free_bytes, &total) * 49) % 251;
}

int main(void)
{
    pthread_t thread[4];
    MUST(cudaFree(0));
    for (int t = 0; t < 4; t++)
        pthread_create(&thread[t], NULL, hammer, NULL);
    for (int i = 0; i < 40; i++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0)
            _exit(child());
        waitpid(pid, &status, 0);
        printf("child %d: %d\n", i, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    stop = 1;
    for (int t = 0; t < 4; t++)
        pthread_join(thread[t], NULL);
    SHOW(cudaDeviceSynchronize());
    return 0;
}
