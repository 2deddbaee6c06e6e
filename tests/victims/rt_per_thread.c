/* Per-thread streams given as handles to the ordinary calls: the same handle is another stream in
 * each thread. */
#include "victim.h"
#include "victim_sim.h"

static pthread_barrier_t step;
static void *shared[4];

static void *work(void *arg)
{
    int me = *(int *)arg;
    MUST(cudaSetDevice(0));
    for (int i = 0; i < 50; i++) {
        size_t bytes = (size_t)4096 << (i % 6);
        void *a;
        MUST(cudaMallocAsync(&shared[me], bytes, cudaStreamPerThread));
        kernel_write(cudaStreamPerThread, 400000, shared[me], bytes);
        MUST(cudaFreeAsync(shared[me], cudaStreamPerThread));
        pthread_barrier_wait(&step);
        MUST(cudaMallocAsync(&a, bytes,
                             cudaStreamPerThread)); /* some other thread's, freed just now */
        kernel_write(cudaStreamPerThread, 1000, a, bytes);
        MUST(cudaFreeAsync(a, cudaStreamPerThread));
        pthread_barrier_wait(&step);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread[4];
    int number[4] = {0, 1, 2, 3};
    pthread_barrier_init(&step, NULL, 4);
    for (int t = 0; t < 4; t++)
        pthread_create(&thread[t], NULL, work, &number[t]);
    for (int t = 0; t < 4; t++)
        pthread_join(thread[t], NULL);
    SHOW(cudaDeviceSynchronize());
    printf("hazards %d\n", hazards());
    return 0;
}
