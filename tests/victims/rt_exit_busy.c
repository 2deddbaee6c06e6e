/* main returns while other threads allocate and free. What they get then is not printed. */
#include "victim.h"

static void *hammer(void *arg)
{
    cudaSetDevice(0);
    for (;;) {
        void *a, *b;
        if (cudaMalloc(&a, 100000) == cudaSuccess && cudaMallocAsync(&b, 3000, 0) == cudaSuccess) {
            cudaFreeAsync(b, 0);
            cudaFree(a);
        }
    }
    return arg;
}

int main(void)
{
    pthread_t thread;
    MUST(cudaFree(0));
    for (int t = 0; t < 4; t++)
        pthread_create(&thread, NULL, hammer, NULL);
    usleep(30000);
    printf("leaving\n");
    return 7;
}
