/* Started with stderr closed, a file of the program's own becomes descriptor 2: nobody else writes
 * to it. Started with a full pipe as stderr: what is said arrives when somebody reads.
 *
 * usage: rt_stderr closed | full
 */
#include "victim.h"

#include <fcntl.h>

static int child_main(const char *path)
{
    void *a;
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    MUST(cudaMalloc(&a, 1000));
    dprintf(file, "mine, as number %d\n", file);
    SHOW(cudaFree((char *)a + 100));
    SHOW(cudaFree(a));
    return 0;
}

static pid_t start(const char *self, const char *path, int error)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(2);
        if (error >= 0)
            dup2(error, 2);
        execl(self, self, "child", path, NULL);
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

static void closed(const char *self)
{
    char path[] = "/tmp/vramalloc-victim-XXXXXX", text[4096] = "";
    int made = mkstemp(path);
    show_end(start(self, path, -1));
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
    pid_t child = start(self, "/dev/null", ends[1]);
    close(ends[1]);
    usleep(300000);
    while ((got = read(ends[0], all + used, sizeof(all) - 1 - used)) > 0)
        used += (size_t)got;
    show_end(child);
    printf("the report arrived: %d\n", strstr(all, "vramalloc report: ") != NULL);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return child_main(argv[2]);
    if (argc == 2 && strcmp(argv[1], "full") == 0)
        full("/proc/self/exe");
    else
        closed("/proc/self/exe");
    return 0;
}
