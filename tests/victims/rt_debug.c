/* Faults that a pool hides: writes past the end of a block and into freed memory, by every pair of
 * calls. "right": none. */
#include "victim.h"

static void *make(size_t bytes, int ordered)
{
    void *block;
    MUST(ordered ? cudaMallocAsync(&block, bytes, 0) : cudaMalloc(&block, bytes));
    return block;
}

static void end(void *block, int ordered)
{
    MUST(ordered ? cudaFreeAsync(block, 0) : cudaFree(block));
}

static int zeroes(void *block, size_t bytes)
{
    unsigned char *copy = malloc(bytes);
    int zero = 1;
    MUST(cudaMemcpy(copy, block, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < bytes; i++)
        zero = zero && copy[i] == 0;
    free(copy);
    return zero;
}

static void write_at(void *block, size_t at, size_t bytes)
{
    MUST(cudaMemset((char *)block + at, 0x77, bytes));
    MUST(cudaDeviceSynchronize());
}

int main(int count, char **arguments)
{
    static const size_t lengths[] = {1, 512, 1000, 8192, 70000, 1 << 20, (3 << 20) + 5};
    int wrong = count < 2 || strcmp(arguments[1], "right") != 0;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (int how = 0; how < 4; how++) {
            void *block = make(lengths[i], how & 1), *neighbour = make(lengths[i], how & 1);
            printf("%zu bytes: zero %d %d\n", lengths[i], zeroes(block, lengths[i]),
                   zeroes(neighbour, lengths[i]));
            write_at(block, 0, lengths[i] + (wrong ? 3 : 0));
            end(block, how >> 1);
            if (wrong)
                write_at(block, lengths[i] < 60000 ? lengths[i] / 2 : 60000,
                         1); /* the ends are looked at */
            void *again = make(lengths[i], how & 1);
            printf("the same place %d, zero %d\n", again == block, zeroes(again, lengths[i]));
            end(again, how >> 1);
            end(neighbour, how >> 1);
        }
    }
    return 0;
}
