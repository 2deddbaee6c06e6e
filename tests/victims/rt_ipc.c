/* Blocks of every size shared with another process: right bytes at the right place, both ways, each
 * its own range. */
#include "victim.h"

enum { BLOCKS = 9 };
static const size_t lengths[BLOCKS] = {100000,  100000, 1 * MIB, 1 * MIB, 1 * MIB,
                                       1 * MIB, 1000,   9 * MIB, 64 * MIB};

struct letter {
    cudaIpcMemHandle_t handle[BLOCKS];
};

static int byte_at(void *block, size_t at)
{
    unsigned char byte = 0;
    MUST(cudaMemcpy(&byte, (char *)block + at, 1, cudaMemcpyDeviceToHost));
    return byte;
}

static void imported(const struct letter *letter)
{
    void *block[BLOCKS], *again;
    struct cudaPointerAttributes attributes;
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cudaIpcOpenMemHandle(&block[i], letter->handle[i], cudaIpcMemLazyEnablePeerAccess));
        MUST(cudaPointerGetAttributes(&attributes, block[i]));
        printf("block %d: %d to %d, type %d\n", i, byte_at(block[i], 0),
               byte_at(block[i], lengths[i] - 1), (int)attributes.type);
        MUST(cudaMemset((char *)block[i] + lengths[i] / 2, 100 + i, 1));
    }
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cudaIpcOpenMemHandle(&again, letter->handle[i], cudaIpcMemLazyEnablePeerAccess));
        printf("block %d again: the same place %d\n", i, again == block[i]);
        SHOW(cudaIpcCloseMemHandle(block[i]));
        printf("still %d\n", byte_at(block[i], 0));
        SHOW(cudaIpcCloseMemHandle(again));
        SHOW(cudaIpcCloseMemHandle(again));
        SHOW_LAST();
    }
    MUST(cudaIpcOpenMemHandle(&again, letter->handle[3], cudaIpcMemLazyEnablePeerAccess));
    printf("opened after it was closed: %d\n", byte_at(again, 0));
    SHOW(cudaFree(again)); /* is not its to free */
    SHOW_LAST();
}

static int child(int from)
{
    struct letter letter;
    if (read(from, &letter, sizeof(letter)) != (ssize_t)sizeof(letter))
        return 2;
    imported(&letter);
    fflush(stdout);
    return 0;
}

int main(void)
{
    static struct letter letter;
    void *block[BLOCKS], *ordered;
    cudaIpcMemHandle_t handle;
    int ends[2], status = -1, different = 1;
    if (pipe(ends) != 0)
        return 1;
    pid_t pid = fork(); /* before CUDA is used */
    if (pid == 0) {
        close(ends[1]);
        _exit(child(ends[0]));
    }
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cudaMalloc(&block[i], lengths[i]));
        MUST(cudaMemset(block[i], 10 + i, lengths[i]));
        MUST(cudaMemset((char *)block[i] + lengths[i] - 1, 50 + i, 1));
    }
    MUST(cudaDeviceSynchronize());
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cudaIpcGetMemHandle(&letter.handle[i], block[i]));
        MUST(cudaIpcGetMemHandle(&handle, (char *)block[i] + lengths[i] / 2));
        printf("block %d: from inside the same %d\n", i,
               memcmp(&handle, &letter.handle[i], sizeof(handle)) == 0);
        for (int k = 0; k < i; k++)
            different =
                different && memcmp(&letter.handle[k], &letter.handle[i], sizeof(handle)) != 0;
    }
    printf("all different %d\n", different);
    fflush(stdout);
    if (write(ends[1], &letter, sizeof(letter)) != (ssize_t)sizeof(letter))
        return 1;
    waitpid(pid, &status, 0);
    printf("the other process ended with %d\n", status);
    for (int i = 0; i < BLOCKS; i++)
        printf("block %d: %d in its middle\n", i, byte_at(block[i], lengths[i] / 2));
    MUST(cudaFree(block[1]));
    SHOW(cudaIpcGetMemHandle(&handle, block[1]));
    MUST(cudaMallocAsync(&ordered, 32 * MIB, 0)); /* memory of a pool has no such handle */
    SHOW(cudaIpcGetMemHandle(&handle, ordered));
    SHOW_LAST();
    MUST(cudaFreeAsync(ordered, 0));
    for (int i = 0; i < BLOCKS; i++)
        if (i != 1)
            MUST(cudaFree(block[i]));
    return 0;
}
