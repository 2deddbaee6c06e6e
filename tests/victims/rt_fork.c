/* A child before CUDA is used, and after, by fork or (argument "clone") by the system call alone,
 * which runs no handlers of fork. The child prints what it gets.
 */
#include "victim.h"

#include <signal.h>
#include <sys/syscall.h>

static int by_clone;

static void child_work(const char *when, void *block)
{
    void *a = NULL, *b = NULL;
    size_t free_bytes, total;
    printf("child %s\n", when);
    SHOW(cudaMalloc(&a, 1000));
    cudaError_t result = cudaGetLastError();
    SHOW(cudaMallocAsync(&b, 70000, 0));
    SHOW(cudaMemGetInfo(&free_bytes, &total));
    SHOW(cudaFree(a));
    SHOW(cudaFreeAsync(b, 0));
    if (!by_clone) /* the driver still knows its own block there: ours is none of its */
        SHOW(cudaFree(block));
    SHOW(cudaDeviceSynchronize());
    fflush(stdout);
    exit(result == cudaSuccess ? 11 : 12);
}

static void make_and_wait(const char *when, void *block)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = by_clone ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : fork();
    if (pid == 0)
        child_work(when, block);
    waitpid(pid, &status, 0);
    printf("child %s exited %d\n", when, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int main(int argc, char **argv)
{
    void *a;
    by_clone = argc > 1 && strcmp(argv[1], "clone") == 0;
    make_and_wait("before", NULL);
    MUST(cudaMalloc(&a, 1000));
    make_and_wait("after", a);
    printf("right %d\n", pattern_ok(a, 1000, 1));
    SHOW(cudaFree(a));
    return 0;
}
