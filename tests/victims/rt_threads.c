/* Eight threads allocate, check and free at once. */
#include "victim.h"

static void *work(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    void *block[20] = {0};
    size_t bytes[20] = {0};
    long wrong = 0;
    MUST(cudaSetDevice(0));
    for (int i = 0; i < 400; i++) {
        seed = seed * 1103515245 + 12345;
        int k = (int)(seed >> 16) % 20;
        if (block[k] != NULL) {
            wrong += !pattern_ok(block[k], bytes[k], seed);
            wrong += cudaFree(block[k]) != cudaSuccess;
            block[k] = NULL;
            continue;
        }
        bytes[k] = 1 + (seed >> 8) % (1u << (seed % 22));
        wrong += cudaMalloc(&block[k], bytes[k]) != cudaSuccess;
    }
    for (int k = 0; k < 20; k++)
        wrong += cudaFree(block[k]) != cudaSuccess;
    return (void *)wrong;
}

int main(void)
{
    pthread_t thread[8];
    unsigned seed[8];
    long wrong = 0;
    for (unsigned i = 0; i < 8; i++) {
        seed[i] = i + 1;
        pthread_create(&thread[i], NULL, work, &seed[i]);
    }
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(thread[i], &result);
        wrong += (long)result;
    }
    printf("wrong %ld\n", wrong);
    return 0;
}
