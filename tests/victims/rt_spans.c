/* Blocks of every length up to 30 MiB, written and read whole: with memory by handle they lie
 * across several handles. */
#include "victim.h"

int main(void)
{
    static unsigned char out[30 * MIB], in[30 * MIB];
    int wrong = 0;
    for (size_t i = 0; i < sizeof(out); i++)
        out[i] = (unsigned char)(i * 7 + i / 4096);
    for (size_t bytes = 3 * MIB + 77; bytes < sizeof(out); bytes += 3 * MIB + 1234) {
        void *one, *two;
        MUST(cudaMalloc(&one, bytes));
        MUST(cudaMalloc(&two, bytes));
        MUST(cudaMemcpy(one, out, bytes, cudaMemcpyHostToDevice));
        MUST(cudaMemcpy(two, one, bytes, cudaMemcpyDeviceToDevice));
        MUST(cudaMemset((char *)one + bytes / 2, 5, bytes / 3));
        MUST(cudaMemcpy(in, two, bytes, cudaMemcpyDeviceToHost));
        wrong += memcmp(in, out, bytes) != 0;
        MUST(cudaMemcpy(in, one, bytes, cudaMemcpyDeviceToHost));
        wrong += in[bytes / 2] != 5 || in[bytes / 2 - 1] != out[bytes / 2 - 1];
        MUST(cudaFree(one));
        if (bytes % 3 == 0)
            MUST(cudaFree(two));
    }
    printf("wrong %d\n", wrong);
    return 0;
}
