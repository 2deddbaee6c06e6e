/* What is read of device memory before its first write and after its free: a NaN in each
 * floating-point type? */
#include "victim.h"

enum { BYTES = 70001 };

/* Whether a number of that form is a NaN: all bits of the exponent, and one of the fraction. */
static int nan_of(uint64_t bits, int width, int fraction)
{
    uint64_t exponent = (bits >> fraction) & (((uint64_t)1 << (width - 1 - fraction)) - 1);
    return exponent == ((uint64_t)1 << (width - 1 - fraction)) - 1 &&
           (bits & (((uint64_t)1 << fraction) - 1)) != 0;
}

/* How many of the numbers of that form in a range are none. */
static int numbers(const unsigned char *copy, size_t bytes, int width, int fraction)
{
    int count = 0;
    size_t step = (size_t)width / 8;
    for (size_t at = 0; at + step <= bytes; at += step) {
        uint64_t bits = 0;
        memcpy(&bits, copy + at, step);
        count += !nan_of(bits, width, fraction);
    }
    return count;
}

static void look(const char *when, const void *block, size_t bytes)
{
    static unsigned char copy[BYTES];
    MUST(cudaMemcpy(copy, block, bytes, cudaMemcpyDeviceToHost));
    printf("%s, %zu bytes: numbers as f16 %d, bf16 %d, f32 %d, f64 %d\n", when, bytes,
           numbers(copy, bytes, 16, 10), numbers(copy, bytes, 16, 7), numbers(copy, bytes, 32, 23),
           numbers(copy, bytes, 64, 52));
}

int main(void)
{
    static const size_t lengths[] = {8, 1000, 8192, BYTES};
    void *keep;
    MUST(cudaMalloc(&keep, 1000)); /* so that memory freed stays the program's to read */
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (int ordered = 0; ordered < 2; ordered++) {
            void *block;
            MUST(ordered ? cudaMallocAsync(&block, lengths[i], 0) : cudaMalloc(&block, lengths[i]));
            MUST(cudaDeviceSynchronize());
            look("fresh", block, lengths[i]);
            MUST(cudaMemset(block, 0x3f, lengths[i]));
            look("written", block, lengths[i]);
            MUST(ordered ? cudaFreeAsync(block, 0) : cudaFree(block));
            MUST(cudaDeviceSynchronize());
            look("freed", block, lengths[i]);
        }
    }
    return 0;
}
