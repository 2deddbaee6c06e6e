/* ipc.cu - case 16 on a real GPU: a block that starts its own driver allocation is shared with another process,
 * which must see the right bytes at the right place.
 */
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status_ = (call);                                                              \
        if (status_ != cudaSuccess) {                                                              \
            printf("%s: %s\n", #call, cudaGetErrorName(status_));                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const size_t bytes = (size_t)256 << 20;

/* The other process: opens what it reads from the pipe, looks at both ends, writes one byte. */
static int child(int from)
{
    cudaIpcMemHandle_t handle;
    unsigned char *block, first = 0, last = 0;
    if (read(from, &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
        return 2;
    CHECK(cudaIpcOpenMemHandle((void **)&block, handle, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaMemcpy(&first, block, 1, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&last, block + bytes - 1, 1, cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(block + 5, 99, 1));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcCloseMemHandle(block));
    return first == 11 && last == 22 ? 0 : 3;
}

int main()
{
    int ends[2], status = -1;
    unsigned char *block, changed = 0;
    void *small;
    cudaIpcMemHandle_t handle;
    if (pipe(ends) != 0)
        return 1;
    fflush(stdout);
    pid_t pid = fork(); /* before CUDA is used */
    if (pid == 0)
        _exit(child(ends[0]));
    CHECK(cudaMalloc(&small, 1000));
    CHECK(cudaMalloc((void **)&block, bytes));
    CHECK(cudaMemset(block, 11, 1));
    CHECK(cudaMemset(block + bytes - 1, 22, 1));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcGetMemHandle(&handle, block));
    if (write(ends[1], &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
        return 1;
    waitpid(pid, &status, 0);
    CHECK(cudaMemcpy(&changed, block + 5, 1, cudaMemcpyDeviceToHost));
    printf("the other process ended with %d, its byte is %d\n", WEXITSTATUS(status), changed);
    return status != 0 || changed != 99;
}
