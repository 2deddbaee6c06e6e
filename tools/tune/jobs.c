/* jobs.c - jobs in processes. See jobs.h. A process takes the next number until none is left. */
#define _GNU_SOURCE
#include "jobs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES_MAX = 256, LOOK_MS = 100, BAR = 30 };

struct shared {
    size_t next; /* atomic */
    size_t done; /* atomic; of those that could be */
};

void *jobs_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

static void work_all(struct shared *shared, size_t count, jobs_work *work, void *arg)
{
    size_t job;
    while ((job = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED)) < count) {
        if (!work(arg, job))
            _exit(EXIT_FAILURE);
        __atomic_fetch_add(&shared->done, 1, __ATOMIC_RELAXED);
    }
    _exit(EXIT_SUCCESS);
}

static void progress(const char *title, size_t done, size_t count)
{
    char bar[BAR + 1];
    if (!isatty(STDERR_FILENO))
        return;
    for (size_t i = 0; i < BAR; i++)
        bar[i] = i * count < done * BAR ? '#' : '.';
    bar[BAR] = '\0';
    fprintf(stderr, "\r\033[K%s [%s] %zu of %zu", title, bar, done, count);
}

static void progress_end(void)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

static size_t processes_start(struct shared *shared, size_t count, size_t processes,
                              jobs_work *work, void *arg)
{
    size_t started = 0;
    pid_t parent = getpid();
    fflush(NULL);
    for (; started < processes; started++) {
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(EXIT_FAILURE);
        work_all(shared, count, work, arg);
    }
    return started;
}

/* Until all have ended. */
static void processes_await(const struct shared *shared, size_t started, size_t count,
                            const char *title)
{
    const struct timespec pause = {0, LOOK_MS * 1000000L};
    while (started > 0) {
        pid_t ended = waitpid(-1, NULL, WNOHANG);
        if (ended > 0) {
            started--;
            continue;
        }
        if (ended < 0 && errno != EINTR)
            return;
        progress(title, __atomic_load_n(&shared->done, __ATOMIC_RELAXED), count);
        nanosleep(&pause, NULL);
    }
}

bool jobs_run(size_t count, size_t processes, const char *title, jobs_work *work, void *arg)
{
    struct shared *shared = jobs_memory(sizeof(*shared));
    if (shared == NULL)
        return false;
    if (processes > PROCESSES_MAX)
        processes = PROCESSES_MAX;
    size_t started =
        processes_start(shared, count, processes < count ? processes : count, work, arg);
    processes_await(shared, started, count, title);
    progress_end();
    bool all = __atomic_load_n(&shared->done, __ATOMIC_RELAXED) == count;
    munmap(shared, sizeof(*shared));
    return all;
}
