/* fork before CUDA is used, and after. The child prints what it gets. */
#include "victim.h"

static void child_work(const char *when)
{
    void *a = NULL;
    cudaError_t result = cudaMalloc(&a, 1000);
    printf("child %s: cudaMalloc %s, cudaFree %s\n", when, cudaGetErrorName(result),
           cudaGetErrorName(cudaFree(a)));
    fflush(stdout);
    exit(result == cudaSuccess ? 11 : 12);
}

static void fork_and_wait(const char *when)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        child_work(when);
    waitpid(pid, &status, 0);
    printf("child %s exited %d\n", when, WEXITSTATUS(status));
}

int main(void)
{
    void *a;
    fork_and_wait("before");
    MUST(cudaMalloc(&a, 1000));
    fork_and_wait("after");
    SHOW(cudaFree(a));
    return 0;
}
