/* fuzz_device.h - what fuzz.cu runs on the device: fills, verifications and delays, and what was
 * found wrong.
 *
 * By nvcc: kernels. Compiled as C, for the simulated driver: fills and copies of that driver, which
 * move real bytes when they are submitted, beside ranges that its oracle of hazards is told of.
 *
 * A pattern is word i = key + i * step; in the simulator all bytes are the key's lowest. A
 * verification has a slot for the number of wrong words; slots are read when all work is done.
 *
 * What it leaves out: in the simulator only the first and last 16 bytes of a block are compared.
 */
#ifndef VRAMALLOC_TESTS_FUZZ_DEVICE_H
#define VRAMALLOC_TESTS_FUZZ_DEVICE_H

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status_ = (call);                                                              \
        if (status_ != cudaSuccess) {                                                              \
            printf("%s: %s, line %d\n", #call, cudaGetErrorName(status_), __LINE__);               \
            fflush(stdout);                                                                        \
            _exit(2); /* other threads are inside CUDA */                                          \
        }                                                                                          \
    } while (0)

#ifdef __CUDACC__

enum { SIMULATED = 0 };

struct found {       /* one thread's slots */
    unsigned *wrong; /* on the device */
    unsigned slots;
};

__global__ void fuzz_fill(unsigned *words, size_t count, unsigned key, unsigned step)
{
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        words[i] = key + (unsigned)i * step;
}

__global__ void fuzz_verify(const unsigned *words, size_t count, unsigned key, unsigned step,
                            unsigned *wrong)
{
    unsigned bad = 0;
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        bad += words[i] != key + (unsigned)i * step;
    if (bad != 0)
        atomicAdd(wrong, bad);
}

__global__ void fuzz_delay(long long cycles)
{
    long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}

static unsigned grid_for(size_t count)
{
    size_t blocks = (count + 1023) / 1024;
    return blocks < 64 ? (unsigned)blocks : 64;
}

static unsigned pattern_word(unsigned key, unsigned step, size_t i)
{
    return key + (unsigned)i * step;
}

static void device_fill(cudaStream_t stream, unsigned *words, size_t count, unsigned key,
                        unsigned step)
{
    fuzz_fill<<<grid_for(count), 256, 0, stream>>>(words, count, key, step);
    CHECK(cudaGetLastError());
}

static void device_verify(cudaStream_t stream, const unsigned *words, size_t count, unsigned key,
                          unsigned step, struct found *found, unsigned slot)
{
    fuzz_verify<<<grid_for(count), 256, 0, stream>>>(words, count, key, step, found->wrong + slot);
    CHECK(cudaGetLastError());
}

static void device_delay(cudaStream_t stream, unsigned microseconds)
{
    fuzz_delay<<<1, 1, 0, stream>>>(microseconds * 2000ll); /* at 2 GHz */
    CHECK(cudaGetLastError());
}

static void found_open(struct found *found, unsigned thread, unsigned slots)
{
    (void)thread;
    found->slots = slots;
    CHECK(cudaMalloc((void **)&found->wrong, slots * sizeof(unsigned)));
    CHECK(cudaMemset(found->wrong, 0, slots * sizeof(unsigned)));
    /* every kernel is loaded before a capture may be the first to need it */
    device_fill(cudaStreamLegacy, found->wrong, 1, 0, 0);
    device_verify(cudaStreamLegacy, found->wrong, 1, 0, 0, found, 0);
    device_delay(cudaStreamLegacy, 0);
    CHECK(cudaDeviceSynchronize());
}

/* All work has been waited for. */
static void found_read(struct found *found, unsigned *wrong)
{
    CHECK(cudaMemcpy(wrong, found->wrong, found->slots * sizeof(unsigned), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(found->wrong));
}

static int device_hazards(void)
{
    return 0;
}

static void oracle_begin(const void *block, size_t bytes)
{
    (void)block, (void)bytes;
}

static void oracle_end(const void *block)
{
    (void)block;
}

#else

#    include "../victims/victim_sim.h"

enum { SIMULATED = 1, SAMPLE = 16, SAMPLES = 8192 };

struct sample {
    unsigned char head[SAMPLE], tail[SAMPLE];
    unsigned length, key;
};

struct found {
    struct sample *samples;
    unsigned slots;
};

/* Not from malloc: the oracle remembers addresses that were the device's once. */
static struct sample samples[4][SAMPLES];

static unsigned pattern_word(unsigned key, unsigned step, size_t i)
{
    (void)step, (void)i;
    return (key & 255) * 0x01010101u;
}

static void device_fill(cudaStream_t stream, unsigned *words, size_t count, unsigned key,
                        unsigned step)
{
    (void)step;
    CHECK(cudaMemsetAsync(words, (int)(key & 255), count * 4, stream));
    kernel_touch(stream, 1000 + count / 100, words, count * 4, 1);
}

static void device_verify(cudaStream_t stream, const unsigned *words, size_t count, unsigned key,
                          unsigned step, struct found *found, unsigned slot)
{
    struct sample *sample = &found->samples[slot];
    const unsigned char *bytes = (const unsigned char *)words;
    (void)step;
    sample->length = count * 4 < SAMPLE ? (unsigned)count * 4 : SAMPLE;
    sample->key = key & 255;
    memset(sample->head, (int)sample->key,
           SAMPLE); /* right if it is part of a graph that is not launched */
    memset(sample->tail, (int)sample->key, SAMPLE);
    kernel_touch(stream, 1000 + count / 100, (void *)words, count * 4, 0);
    CHECK(cudaMemcpyAsync(sample->head, bytes, sample->length, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(sample->tail, bytes + count * 4 - sample->length, sample->length,
                          cudaMemcpyDeviceToHost, stream));
}

static void device_delay(cudaStream_t stream, unsigned microseconds)
{
    kernel_touch(stream, microseconds * 1000, NULL, 0, 0);
}

static void found_open(struct found *found, unsigned thread, unsigned slots)
{
    found->slots = slots < SAMPLES ? slots : SAMPLES;
    found->samples = samples[thread];
    memset(samples[thread], 0, sizeof(samples[thread]));
}

static unsigned sample_wrong(const struct sample *sample)
{
    unsigned wrong = 0;
    for (unsigned i = 0; i < sample->length; i++)
        wrong += (sample->head[i] != sample->key) + (sample->tail[i] != sample->key);
    return wrong;
}

static void found_read(struct found *found, unsigned *wrong)
{
    for (unsigned i = 0; i < found->slots; i++)
        wrong[i] = sample_wrong(&found->samples[i]);
}

static int device_hazards(void)
{
    return hazards();
}

/* The stand-in runtime tells the oracle of its own blocks; not of a graph's, nor of the driver
 * API's. */
static void oracle_begin(const void *block, size_t bytes)
{
    void (*begin)(CUdeviceptr, size_t) =
        (void (*)(CUdeviceptr, size_t))sim_function("vrsim_note_alloc");
    begin((CUdeviceptr)(uintptr_t)block, bytes);
}

static void oracle_end(const void *block)
{
    int (*end)(CUdeviceptr) = (int (*)(CUdeviceptr))sim_function("vrsim_note_free");
    end((CUdeviceptr)(uintptr_t)block);
}

#endif
#endif
