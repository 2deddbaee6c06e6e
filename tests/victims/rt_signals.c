/* Timer signals that interrupt whatever the threads are in. */
#include "victim.h"

#include <signal.h>
#include <sys/time.h>

static int ticks;

static void on_tick(int number)
{
    (void)number;
    __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED);
}

static void *work(void *arg)
{
    long failed = 0;
    void *block[16];
    MUST(cudaSetDevice(0));
    while (__atomic_load_n(&ticks, __ATOMIC_RELAXED) < 200) {
        for (int i = 0; i < 16; i++)
            failed += cudaMalloc(&block[i], (size_t)1000 << (i % 11)) != cudaSuccess;
        for (int i = 0; i < 16; i++)
            failed += cudaFree(block[i]) != cudaSuccess;
    }
    *(long *)arg = failed;
    return NULL;
}

int main(void)
{
    pthread_t thread[4];
    long failed[4] = {0};
    struct sigaction action = {.sa_handler = on_tick}; /* no SA_RESTART */
    struct itimerval timer = {{0, 500}, {0, 500}};
    MUST(cudaFree(0));
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int t = 0; t < 4; t++)
        pthread_create(&thread[t], NULL, work, &failed[t]);
    for (int t = 0; t < 4; t++)
        pthread_join(thread[t], NULL);
    signal(SIGALRM, SIG_IGN);
    printf("failed %ld\n", failed[0] + failed[1] + failed[2] + failed[3]);
    return 0;
}
