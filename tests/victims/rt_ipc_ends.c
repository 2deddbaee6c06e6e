/* Shared blocks at the ends of their lives: freed, their process gone, its files closed, and
 * handles made up to do harm. Nothing opens, and nothing is reused while another process may look
 * at it.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "victim.h"

/* The library's handle (shim/ipc.h), as somebody who means harm would make it. */
struct forged {
    char mark[8];
    uint64_t token, serial;
    int32_t process, file;
    uint32_t slot, zero[7];
};

static int to_child[2], to_parent[2];

static void open_and_tell(const char *what, const void *bytes)
{
    cudaIpcMemHandle_t handle;
    void *block = NULL;
    unsigned char byte = 0;
    memcpy(&handle, bytes, sizeof(handle));
    cudaError_t result = cudaIpcOpenMemHandle(&block, handle, cudaIpcMemLazyEnablePeerAccess);
    if (result == cudaSuccess)
        MUST(cudaMemcpy(&byte, block, 1, cudaMemcpyDeviceToHost));
    printf("%s: %s, byte %d\n", what, cudaGetErrorName(result), byte);
    cudaGetLastError();
}

static void forgeries(const cudaIpcMemHandle_t *good)
{
    struct forged forged, made;
    memcpy(&forged, good, sizeof(forged));
    made = forged;
    made.token++;
    open_and_tell("wrong token", &made);
    made = forged;
    made.serial++;
    open_and_tell("wrong serial", &made);
    made = forged;
    made.slot++;
    open_and_tell("wrong entry", &made);
    made.slot = UINT32_MAX;
    open_and_tell("entry beyond the end", &made);
    made = forged;
    made.process = -5;
    open_and_tell("no process", &made);
    made = forged;
    made.process = getpid();
    made.file = to_child[0]; /* a pipe: to open it would wait for ever */
    open_and_tell("a pipe", &made);
    made.file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    open_and_tell("a device", &made);
    char name[] = "/tmp/vramalloc-forged-XXXXXX";
    made.file = mkstemp(name);
    unlink(name);
    open_and_tell("an empty file", &made);
    if (ftruncate(made.file, 128 + 8192 * 128) == 0)
        open_and_tell("a file of zeroes", &made);
    memset(&made.token, 0, sizeof(made) - sizeof(made.mark));
    open_and_tell("zeroes", &made);
}

static void send(int to, const void *bytes, size_t length)
{
    if (write(to, bytes, length) != (ssize_t)length)
        _exit(4);
}

static void receive(int from, void *bytes, size_t length)
{
    if (read(from, bytes, length) != (ssize_t)length)
        _exit(5);
}

static void child(void)
{
    cudaIpcMemHandle_t handle, later;
    char go = 0;
    receive(to_child[0], &handle, sizeof(handle));
    open_and_tell("live", &handle);
    forgeries(&handle);
    fflush(stdout);
    send(to_parent[1], &go, 1);
    receive(to_child[0], &go, 1);
    open_and_tell("freed", &handle);
    fflush(stdout);
    send(to_parent[1], &go, 1);
    receive(to_child[0], &later, sizeof(later));
    open_and_tell("exported when its files were closed", &later);
    fflush(stdout);
}

/* The process of the handle ends before it is opened. */
static void gone(void)
{
    int ends[2];
    cudaIpcMemHandle_t handle;
    if (pipe(ends) != 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        void *small, *block;
        MUST(cudaMalloc(&small, 1000));
        MUST(cudaMalloc(&block, 5000));
        MUST(cudaIpcGetMemHandle(&handle, block));
        _exit(write(ends[1], &handle, sizeof(handle)) == (ssize_t)sizeof(handle) ? 0 : 1);
    }
    int status = -1;
    if (read(ends[0], &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
        exit(1);
    waitpid(pid, &status, 0);
    open_and_tell("its process has ended", &handle);
    fflush(stdout);
}

int main(void)
{
    cudaIpcMemHandle_t handle;
    void *first, *block, *after;
    char go = 0;
    int status = -1;
    if (pipe(to_child) != 0 || pipe(to_parent) != 0)
        return 1;
    pid_t pid = fork(); /* before CUDA is used */
    if (pid == 0) {
        child();
        _exit(0);
    }
    pid_t second = fork();
    if (second == 0) {
        gone();
        _exit(0);
    }
    waitpid(second, &status, 0);
    MUST(cudaMalloc(&first, 60000));
    MUST(cudaMalloc(&block, 70000));
    MUST(cudaMemset(block, 7, 70000));
    MUST(cudaDeviceSynchronize());
    MUST(cudaIpcGetMemHandle(&handle, block));
    send(to_child[1], &handle, sizeof(handle));
    receive(to_parent[0], &go, 1);
    MUST(cudaFree(block));
    MUST(cudaMalloc(&after, 70000)); /* the driver's: such blocks are shared here */
    printf("its place is used again: %d\n", after == block);
    fflush(stdout);
    send(to_child[1], &go, 1);
    receive(to_parent[0], &go, 1);
    for (int file = 500; file < 600; file++)
        close(file);
    MUST(cudaMalloc(&after, 65000));
    MUST(cudaMemset(after, 9, 65000));
    MUST(cudaDeviceSynchronize());
    MUST(cudaIpcGetMemHandle(&handle, after));
    send(to_child[1], &handle, sizeof(handle));
    waitpid(pid, &status, 0);
    printf("the other process ended with %d\n", status);
    return 0;
}
