/* runtime_memory.c - allocation, free, answers, copies and errors, by the runtime API.
 *
 * What it leaves out: what only the driver API can ask (driver_memory.c).
 */
#include "differential.h"

/* Not in the stand-in runtime; a real one is linked with -DREAL_RUNTIME. */
#ifdef REAL_RUNTIME
#    define OPTIONAL
#    define PRESENT(name) true
#else
#    define OPTIONAL      __attribute__((weak))
#    define PRESENT(name) (name != NULL)
#endif
cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, enum cudaMemcpyKind kind) OPTIONAL;
cudaError_t cudaMemset2D(void *pointer, size_t pitch, int value, size_t width,
                         size_t height) OPTIONAL;
cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned int flags) OPTIONAL;
cudaError_t cudaHostUnregister(void *pointer) OPTIONAL;
cudaError_t cudaHostGetDevicePointer(void **out, void *host, unsigned int flags) OPTIONAL;

static const size_t sizes[] = {1,       255,         256,         257,          512,
                               513,     4096,        8192,        8193,         65535,
                               65536,   65537,       MIB - 1,     MIB,          MIB + 1,
                               2 * MIB, 2 * MIB + 1, 3 * MIB + 5, 32 * MIB + 1, 100 * MIB};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

#define UNTOUCHED ((void *)0x77)

static void *made(const char *name, size_t bytes)
{
    void *pointer;
    MUST(cudaMalloc(&pointer, bytes));
    block_named(name, ADDRESS(pointer), bytes);
    return pointer;
}

static void free_edges(void)
{
    scope("free");
    char *a = made("A", 1000), *large = made("large", 40 * MIB);
    RT(cudaFree(NULL));
    RT(cudaFree((void *)1));
    RT(cudaFree(a + 1));
    RT(cudaFree(a + 512));
    RT(cudaFree(a - 512));
    RT(cudaFree(large + MIB));
    RT(cudaFree(&a));
    RT(cudaFreeHost(a));
    RT(cudaFree(a));
    RT(cudaFree(a));
    RT(cudaFree(large));
    RT(cudaFree(large));
}

static void pitched(void)
{
    static const size_t widths[] = {0, 1, 512, 513, 70000, SIZE_MAX};
    static const size_t heights[] = {0, 1, 100, SIZE_MAX};
    void *a;
    size_t pitch;
    scope("pitch, no output");
    RT(cudaMallocPitch(NULL, &pitch, 100, 10));
    RT(cudaMallocPitch(&a, NULL, 100, 10));
    for (int w = 0; w < 6; w++)
        for (int h = 0; h < 4; h++) {
            struct cudaPitchedPtr box = {.ptr = UNTOUCHED, .pitch = 99, .xsize = 98, .ysize = 97};
            struct cudaExtent extent = {widths[w], heights[h], 3};
            a = UNTOUCHED, pitch = 99;
            scope("pitch %d %d", w, h);
            cudaError_t result = RT(cudaMallocPitch(&a, &pitch, widths[w], heights[h]));
            say("pitch %zu, output %s", pitch,
                a == UNTOUCHED ? "untouched"
                : a == NULL    ? "NULL"
                               : "one");
            if (result == cudaSuccess && a != NULL) {
                say("aligned %d", ADDRESS(a) % 512 == 0);
                RT(cudaFree(a));
            }
            result = RT(cudaMalloc3D(&box, extent));
            say("pitch %zu, output %s, size %zu %zu", box.pitch,
                box.ptr == UNTOUCHED ? "untouched"
                : box.ptr == NULL    ? "NULL"
                                     : "one",
                box.xsize, box.ysize);
            if (result == cudaSuccess && box.ptr != NULL)
                RT(cudaFree(box.ptr));
        }
}

void runtime_allocate(void)
{
    void *blocks[SIZES], *a = UNTOUCHED;
    static const size_t huge[] = {(size_t)1 << 45, (size_t)1 << 62, SIZE_MAX - 4095, SIZE_MAX};
    scope("first call");
    RT(cudaFree(0));
    for (int i = 0; i < SIZES; i++) {
        scope("%zu bytes", sizes[i]);
        RT(cudaMalloc(&blocks[i], sizes[i]));
        say("aligned to 512: %d", ADDRESS(blocks[i]) % 512 == 0);
        RT(cudaMemset(blocks[i], i, sizes[i]));
    }
    for (int i = 0; i < SIZES; i++) {
        unsigned char first = 0, last = 0;
        scope("%zu bytes", sizes[i]);
        RT(cudaMemcpy(&first, blocks[i], 1, cudaMemcpyDeviceToHost));
        RT(cudaMemcpy(&last, (char *)blocks[i] + sizes[i] - 1, 1, cudaMemcpyDeviceToHost));
        say("content %d", first == i && last == i);
        RT(cudaFree(blocks[i]));
    }
    scope("edges");
    RT(cudaMalloc(NULL, 100));
    RT(cudaMalloc(NULL, 0));
    RT(cudaMalloc(&a, 0));
    say("output %s", a == UNTOUCHED ? "untouched" : a == NULL ? "NULL" : "one");
    for (int i = 0; i < 4; i++) {
        a = UNTOUCHED;
        scope("huge %d", i);
        RT(cudaMalloc(&a, huge[i]));
        say("output %s", a == UNTOUCHED ? "untouched" : a == NULL ? "NULL" : "one");
    }
    free_edges();
    pitched();
}

/* --- answers -------------------------------------------------------------------------------------
 */

static void attributes_of(const void *pointer)
{
    struct cudaPointerAttributes answer;
    memset(&answer, 0, sizeof(answer));
    RT(cudaPointerGetAttributes(&answer, pointer));
    say("type %d device %d at %s, host %s", (int)answer.type, answer.device,
        answer.devicePointer == pointer ? "itself" : where(ADDRESS(answer.devicePointer)),
        answer.hostPointer == pointer ? "itself" : where(ADDRESS(answer.hostPointer)));
}

void runtime_pointers(void)
{
    struct foreign list[FOREIGN_MAX];
    void *async;
    context_make();
    for (int i = 0; i < SIZES; i++) {
        scope("block of %zu", sizes[i]);
        char *a = made("A", sizes[i]);
        attributes_of(a);
        attributes_of(a + sizes[i] / 2);
        attributes_of(a + sizes[i] - 1);
        if (sizes[i] % 512 != 0) {
            scope("one past %zu", sizes[i]);
            attributes_of(a + sizes[i]);
        }
        scope("freed %zu", sizes[i]);
        MUST(cudaFree(a));
        block_ended(ADDRESS(a));
        attributes_of(a);
        RT(cudaPointerGetAttributes(NULL, a));
    }
    scope("async block");
    MUST(cudaMallocAsync(&async, 1000, 0));
    block_named("async", ADDRESS(async), 1000);
    attributes_of(async);
    attributes_of((char *)async + 999);
    attributes_of((char *)async + 1000);
    RT(cudaFreeAsync(async, 0));
    block_ended(ADDRESS(async));
    attributes_of(async);
    RT(cudaDeviceSynchronize());
    attributes_of(async);
    int count = foreign_make(list);
    for (int i = 0; i < count; i++) {
        scope("%s", list[i].kind);
        attributes_of((void *)(uintptr_t)list[i].address);
        attributes_of((char *)(uintptr_t)list[i].address + 5);
    }
}

/* --- copies --------------------------------------------------------------------------------------
 */

static unsigned char host[1 << 20], back[1 << 20];

static unsigned content(const void *pointer, size_t bytes)
{
    unsigned sum = 1;
    memset(back, 0, bytes);
    int result = (int)cudaMemcpy(back, pointer, bytes, cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < bytes; i++)
        sum = sum * 31 + back[i];
    return sum + (unsigned)result;
}

void runtime_copies(void)
{
    static const size_t some[] = {1024, 65536, MIB};
    cudaStream_t stream;
    context_make();
    MUST(cudaStreamCreate(&stream));
    for (size_t i = 0; i < sizeof(host); i++)
        host[i] = (unsigned char)(i * 7 + i / 256);
    for (int i = 0; i < 3; i++) {
        size_t n = some[i];
        char *a = made("A", n), *b = made("B", n);
        scope("copies of %zu", n);
        RT(cudaMemcpy(a, host, n, cudaMemcpyHostToDevice));
        say("content %08x", content(a, n));
        RT(cudaMemcpy(b, a, n, cudaMemcpyDeviceToDevice));
        RT(cudaDeviceSynchronize());
        say("content %08x", content(b, n));
        RT(cudaMemset(b, 7, n));
        RT(cudaMemcpy(a, b, n, cudaMemcpyDefault));
        RT(cudaDeviceSynchronize());
        say("content %08x", content(a, n));
        RT(cudaMemcpy(back, a, n, cudaMemcpyDefault));
        RT(cudaMemcpyAsync(b, host, n, cudaMemcpyHostToDevice, stream));
        RT(cudaMemcpyAsync(a, b, n, cudaMemcpyDefault, stream));
        RT(cudaMemsetAsync(b, 9, n, stream));
        RT(cudaMemcpyAsync(back, b, n, cudaMemcpyDeviceToHost, stream));
        RT(cudaStreamSynchronize(stream));
        say("content %08x %08x", content(a, n), content(b, n));
        scope("edges of %zu", n);
        RT(cudaMemcpy(a, host, 0, cudaMemcpyHostToDevice));
        RT(cudaMemcpy(a, NULL, 0, cudaMemcpyHostToDevice));
        RT(cudaMemcpy(NULL, a, 16, cudaMemcpyDeviceToDevice));
        RT(cudaMemcpy(a, b, 16, (enum cudaMemcpyKind)17));
        RT(cudaMemset(a, 1, 0));
        RT(cudaMemset(NULL, 1, 0));
        RT(cudaMemset(NULL, 1, 16));
        RT(cudaMemset(a, 1, (size_t)1 << 50));
        if (PRESENT(cudaMemcpy2D)) {
            RT(cudaMemcpy2D(a, 128, host, 100, 100, n / 128, cudaMemcpyHostToDevice));
            RT(cudaMemset2D(a, 128, 5, 100, n / 128));
            say("content %08x", content(a, n));
            RT(cudaMemcpy2D(a, 50, host, 100, 100, n / 128, cudaMemcpyHostToDevice));
            RT(cudaMemset2D(a, 50, 5, 100, n / 128));
        }
        RT(cudaFree(a));
        RT(cudaFree(b));
    }
    if (PRESENT(cudaHostRegister)) {
        void *out, *memory = aligned_alloc(4096, 65536);
        char *a = made("A", 1000);
        scope("host registration");
        RT(cudaHostRegister(memory, 65536, 2));
        RT(cudaHostRegister(memory, 65536, 2));
        RT(cudaHostGetDevicePointer(&out, memory, 0));
        RT(cudaHostUnregister(memory));
        RT(cudaHostUnregister(memory));
        RT(cudaHostRegister(a, 1000, 0));
        RT(cudaHostUnregister(a));
        RT(cudaHostGetDevicePointer(&out, a, 0));
    }
}

/* Over the end of a block, by a little. */
void runtime_ends(void)
{
    static const size_t some[] = {1000, 65000};
    context_make();
    for (int i = 0; i < 2; i++)
        for (size_t more = 1; more <= 8; more += 7) {
            size_t n = some[i];
            char *a = made("A", n), *b = made("B", n);
            scope("%zu more than %zu", more, n);
            RT(cudaMemcpy(back, a, n + more, cudaMemcpyDeviceToHost));
            RT(cudaMemcpy(back, a + n, more, cudaMemcpyDeviceToHost));
            RT(cudaMemcpy(a, host, n + more, cudaMemcpyHostToDevice));
            RT(cudaMemcpy(b, a, n + more, cudaMemcpyDeviceToDevice));
            RT(cudaMemcpyAsync(a, host, n + more, cudaMemcpyHostToDevice, 0));
            RT(cudaMemset(a, 1, n + more));
            RT(cudaMemset(a + n, 1, more));
            RT(cudaMemsetAsync(a, 1, n + more, 0));
            RT(cudaDeviceSynchronize());
        }
}

/* As driver_unified. */
void runtime_unified(void)
{
    context_make();
    char *a = made("A", 1000), *b = made("B", 40 * MIB);
    scope("default copy");
    RT(cudaMemcpy(a, b, 1001, cudaMemcpyDefault));
    RT(cudaMemcpy(b, a, 1001, cudaMemcpyDefault));
    RT(cudaMemcpy(back, a + 1000, 1, cudaMemcpyDefault));
    RT(cudaDeviceSynchronize());
    scope("default copy, freed");
    RT(cudaFree(a));
    RT(cudaFree(b));
    RT(cudaMemcpy(back, a, 16, cudaMemcpyDefault));
    RT(cudaMemcpy(back, b, 16, cudaMemcpyDefault));
    RT(cudaMemcpy(a, back, 16, cudaMemcpyDefault));
    RT(cudaDeviceSynchronize());
}

/* --- errors
 * --------------------------------------------------------------------------------------- */

static void *errors_elsewhere(void *unused)
{
    scope("another thread's last error");
    say("last %d", (int)cudaPeekAtLastError());
    RT(cudaFree((void *)1));
    cudaFree((void *)1);
    return unused;
}

void runtime_errors(void)
{
    void *a, *b;
    context_make();
    scope("an error stays until it is taken");
    say("free of nothing %d", (int)cudaFree((void *)1));
    say("allocation %d", (int)cudaMalloc(&a, 1000));
    say("peek %d", (int)cudaPeekAtLastError());
    say("free %d", (int)cudaFree(a));
    say("peek %d", (int)cudaPeekAtLastError());
    say("copy %d", (int)cudaMemcpy(host, back, 10, cudaMemcpyHostToHost));
    say("peek %d", (int)cudaPeekAtLastError());
    say("taken %d", (int)cudaGetLastError());
    say("taken again %d", (int)cudaGetLastError());
    scope("the last of two errors");
    say("too large %d", (int)cudaMalloc(&a, (size_t)1 << 60));
    say("free of nothing %d", (int)cudaFree((void *)1));
    say("taken %d", (int)cudaGetLastError());
    say("free of nothing %d", (int)cudaFree((void *)1));
    say("too large %d", (int)cudaMalloc(&a, (size_t)1 << 60));
    say("taken %d", (int)cudaGetLastError());
    scope("errors of questions");
    struct cudaPointerAttributes answer;
    RT(cudaPointerGetAttributes(&answer, (void *)1));
    RT(cudaMemGetInfo(NULL, NULL));
    cudaIpcMemHandle_t handle;
    RT(cudaIpcGetMemHandle(&handle, (void *)1));
    RT(cudaIpcOpenMemHandle(&a, handle, 1));
    RT(cudaIpcCloseMemHandle((void *)1));
    in_thread(errors_elsewhere, NULL);
    scope("after the thread");
    say("last %d", (int)cudaPeekAtLastError());
    scope("double frees beside live blocks");
    a = made("A", 1000);
    b = made("B", 1000);
    RT(cudaFree(a));
    RT(cudaFree(a));
    RT(cudaFree(b));
    for (int i = 0; i < 20; i++)
        MUST(cudaFree(made("C", (size_t)(i + 1) * 3000)));
    RT(cudaFree(a));
}
