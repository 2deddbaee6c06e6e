/* A thread with a cancellation pending asks for more memory than there is: the call is no point of
 * cancellation, whatever is said about it, and others go on.
 */
#include "victim.h"

static void *work(void *arg)
{
    void *a = NULL;
    MUST(cudaSetDevice(0));
    pthread_cancel(pthread_self());
    printf("asked for too much: %d\n", (int)cudaMalloc(&a, (size_t)1 << 50));
    return arg;
}

int main(void)
{
    void *a;
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        pthread_join(thread, NULL);
        SHOW(cudaMalloc(&a, (size_t)1 << 50));
    }
    MUST(cudaMalloc(&a, 1000));
    return 0;
}
