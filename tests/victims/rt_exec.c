/* Starts programs that have nothing to do with CUDA, before and after using it. */
#include "victim.h"

int main(void)
{
    void *a;
    fflush(stdout);
    printf("exit %d\n", WEXITSTATUS(system("echo child one; exit 4")));
    MUST(cudaMalloc(&a, 1000));
    fflush(stdout);
    printf("exit %d\n", WEXITSTATUS(system("ls /nonexistent 2>/dev/null; echo child two")));
    SHOW(cudaFree(a));
    return 0;
}
