/* Ways to end, with blocks alive. usage: rt_ends return|thread|_exit|quick|abort|exec */
#include "victim.h"

#include <signal.h>

static void *leave(void *arg)
{
    (void)arg;
    exit(9);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "return";
    void *a, *b;
    pthread_t thread;
    MUST(cudaMalloc(&a, 1000));
    MUST(cudaMalloc(&b, 3 * MIB));
    MUST(cudaFree(a));
    printf("%s\n", how);
    fflush(stdout);
    if (strcmp(how, "thread") == 0) {
        pthread_create(&thread, NULL, leave, NULL);
        pthread_exit(NULL);
    }
    if (strcmp(how, "_exit") == 0)
        _exit(6);
    if (strcmp(how, "quick") == 0)
        quick_exit(8);
    if (strcmp(how, "abort") == 0)
        raise(SIGKILL); /* no core file */
    if (strcmp(how, "exec") == 0)
        execl(argv[0], argv[0], "return", (char *)NULL);
    return 0;
}
