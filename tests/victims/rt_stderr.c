/* Started with stderr closed, a file of the program's own becomes descriptor 2: nobody else writes
 * to it; nor if it is closed later and the number goes to a file that children do not inherit.
 * Redirected by dup2, and made unknown to children, it is stderr still. Started with a full pipe as
 * stderr: what is said arrives when somebody reads.
 *
 * usage: rt_stderr closed | reused | redirected | kept | full
 */
#include "victim.h"

#include <fcntl.h>
#include <stdbool.h>

/* The file is there before the first CUDA call, or takes the place of stderr after it. */
static int child_main(const char *how, const char *path)
{
    void *a;
    bool reused = strcmp(how, "reused") == 0;
    int file = reused ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    MUST(cudaMalloc(&a, 1000));
    if (reused) {
        close(2);
        file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    }
    if (strcmp(how, "redirected") == 0)
        dup2(file, 2);
    if (strcmp(how, "kept") == 0)
        fcntl(2, F_SETFD, FD_CLOEXEC);
    dprintf(file, "mine, as number %d\n", file);
    SHOW(cudaFree((char *)a + 100));
    SHOW(cudaFree(a));
    return 0;
}

/* error: the child's stderr; -1: it has none. */
static pid_t start(const char *self, const char *how, const char *path, int error)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (error >= 0)
            dup2(error, 2);
        else
            close(2);
        execl(self, self, "child", how, path, NULL);
        _exit(9);
    }
    return child;
}

static void show_end(pid_t child)
{
    int status;
    waitpid(child, &status, 0);
    printf("ended with %d\n", WEXITSTATUS(status));
}

static void with_file(const char *self, const char *how)
{
    char path[] = "/tmp/vramalloc-victim-XXXXXX", text[4096] = "";
    int made = mkstemp(path);
    show_end(start(self, how, path, strcmp(how, "closed") == 0 ? -1 : 2));
    printf("the file: %zd bytes, %s", pread(made, text, sizeof(text) - 1, 0), text);
    unlink(path);
}

static void full(const char *self)
{
    char text[4096], all[1 << 18] = "";
    int ends[2];
    size_t used = 0;
    ssize_t got;
    if (pipe(ends) != 0)
        return;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    memset(text, '.', sizeof(text));
    while (write(ends[1], text, sizeof(text)) > 0) {
    }
    pid_t child = start(self, "full", "/dev/null", ends[1]);
    close(ends[1]);
    usleep(300000);
    while ((got = read(ends[0], all + used, sizeof(all) - 1 - used)) > 0)
        used += (size_t)got;
    show_end(child);
    printf("the report arrived: %d\n", strstr(all, "vramalloc report: ") != NULL);
}

int main(int argc, char **argv)
{
    if (argc == 4)
        return child_main(argv[2], argv[3]);
    if (argc == 2 && strcmp(argv[1], "full") == 0)
        full("/proc/self/exe");
    else if (argc == 2)
        with_file("/proc/self/exe", argv[1]);
    return 0;
}
