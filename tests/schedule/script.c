/* script.c - see script.h. A program's text is read as it runs: "call argument argument; call ...".
 * A text that is not understood ends the process: programs.def is wrong. */
#define _GNU_SOURCE
#include "script.h"

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/cuda_runtime_min.h"
#include "../sim/vrsim.h"
#include "scheduler.h"

enum { BLOCKS = 26, STREAMS = 8, CONTEXTS = 4, POSTS = 4, ARGUMENTS = 3, CALLS = 24, TEXT = 512 };

#define KERNEL_NS 30000

/* An argument as its letter in calls.def says. */
struct argument {
    size_t number; /* n; else the index */
    enum cudaStreamCaptureMode mode;
};

struct thread {
    char text[TEXT];
    int results[CALLS];
    const char *names[CALLS];
    int count;
    pthread_t handle;
};

static struct {
    void *start;
    size_t bytes;
} block[BLOCKS];
static cudaStream_t stream[STREAMS];
static cudaGraph_t graph[STREAMS]; /* captured there, not launched yet */
static CUcontext context[CONTEXTS];
static int posted[POSTS];

const struct script_program script_programs[] = {
#define PROGRAM(name, devices, card_mib, first, ...)                                               \
    {#name, devices, card_mib, false, first, {__VA_ARGS__}},
#define OPEN(name, devices, card_mib, first, ...)                                                  \
    {#name, devices, card_mib, true, first, {__VA_ARGS__}},
#include "programs.def"
#undef PROGRAM
#undef OPEN
};
const size_t script_program_count = sizeof(script_programs) / sizeof(script_programs[0]);

const struct script_program *script_find(const char *name)
{
    for (size_t i = 0; i < script_program_count; i++)
        if (strcmp(script_programs[i].name, name) == 0)
            return &script_programs[i];
    return NULL;
}

/* --- the calls -------------------------------------------------------------------------------- */

static int call_malloc(const struct argument *a)
{
    block[a[0].number].bytes = a[1].number;
    return (int)cudaMalloc(&block[a[0].number].start, a[1].number);
}

static int call_free(const struct argument *a)
{
    return (int)cudaFree(block[a[0].number].start);
}

static int call_amalloc(const struct argument *a)
{
    block[a[0].number].bytes = a[1].number;
    return (int)cudaMallocAsync(&block[a[0].number].start, a[1].number, stream[a[2].number]);
}

static int call_afree(const struct argument *a)
{
    return (int)cudaFreeAsync(block[a[0].number].start, stream[a[1].number]);
}

/* A block that could not be had is left alone. */
static int call_kernel(const struct argument *a)
{
    struct vrsim_range range = {(CUdeviceptr)(uintptr_t)block[a[0].number].start,
                                block[a[0].number].bytes, 1};
    if (range.address == 0)
        return -1;
    return (int)vrsim_launch((CUstream)stream[a[1].number], KERNEL_NS, 1, &range);
}

static int call_stream(const struct argument *a)
{
    return (int)cudaStreamCreateWithFlags(&stream[a[0].number], cudaStreamNonBlocking);
}

static int call_destroy(const struct argument *a)
{
    return (int)cudaStreamDestroy(stream[a[0].number]);
}

static int call_begin(const struct argument *a)
{
    return (int)cudaStreamBeginCapture(stream[a[0].number], a[1].mode);
}

static int call_end(const struct argument *a)
{
    return (int)cudaStreamEndCapture(stream[a[0].number], &graph[a[0].number]);
}

static int call_launch(const struct argument *a)
{
    cudaGraphExec_t exec;
    cudaError_t result = cudaGraphInstantiate(&exec, graph[a[0].number], 0);
    if (result != cudaSuccess)
        return (int)result;
    result = cudaGraphLaunch(exec, stream[a[0].number]);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph[a[0].number]);
    return (int)result;
}

static int call_ssync(const struct argument *a)
{
    return (int)cudaStreamSynchronize(stream[a[0].number]);
}

static int call_sync(const struct argument *a)
{
    (void)a;
    return (int)cudaDeviceSynchronize();
}

static int call_relax(const struct argument *a)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    (void)a;
    return (int)cudaThreadExchangeStreamCaptureMode(&mode);
}

static void ask_for_memory(void *unused)
{
    void *start;
    (void)unused;
    schedule_says("a host function");
    cudaMalloc(&start, 5000);
}

static int call_callback(const struct argument *a)
{
    return (int)cudaLaunchHostFunc(stream[a[0].number], ask_for_memory, NULL);
}

static int call_info(const struct argument *a)
{
    size_t free_bytes, total_bytes;
    (void)a;
    return (int)cudaMemGetInfo(&free_bytes, &total_bytes);
}

static int call_trim(const struct argument *a)
{
    cudaMemPool_t pool;
    (void)a;
    cudaError_t result = cudaDeviceGetDefaultMemPool(&pool, 0);
    return (int)(result != cudaSuccess ? result : cudaMemPoolTrimTo(pool, 0));
}

static int call_attributes(const struct argument *a)
{
    struct cudaPointerAttributes attributes;
    return (int)cudaPointerGetAttributes(&attributes, block[a[0].number].start);
}

static int call_reset(const struct argument *a)
{
    (void)a;
    return (int)cudaDeviceReset();
}

static int call_device(const struct argument *a)
{
    return (int)cudaSetDevice((int)a[0].number);
}

static int call_peer(const struct argument *a)
{
    return (int)cudaDeviceEnablePeerAccess((int)a[0].number, 0);
}

static int call_context(const struct argument *a)
{
    CUctxCreateParams parameters = {0};
    return (int)cuCtxCreate(&context[a[0].number], &parameters, 0, 0);
}

static int call_enter(const struct argument *a)
{
    return (int)cuCtxPushCurrent(context[a[0].number]);
}

static int call_leave(const struct argument *a)
{
    CUcontext popped;
    (void)a;
    return (int)cuCtxPopCurrent(&popped);
}

static int call_ctxdestroy(const struct argument *a)
{
    return (int)cuCtxDestroy(context[a[0].number]);
}

static int call_drvmalloc(const struct argument *a)
{
    CUdeviceptr address = 0;
    CUresult result = cuMemAlloc(&address, a[1].number);
    if (result == CUDA_SUCCESS)
        vrsim_note_alloc(address, a[1].number);
    block[a[0].number].start = (void *)(uintptr_t)address;
    block[a[0].number].bytes = a[1].number;
    return (int)result;
}

static int call_drvfree(const struct argument *a)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)block[a[0].number].start;
    int ended = vrsim_note_free(address);
    CUresult result = cuMemFree(address);
    if (result != CUDA_SUCCESS && ended)
        vrsim_note_free_failed(address);
    return (int)result;
}

static int call_post(const struct argument *a)
{
    posted[a[0].number] = 1;
    schedule_wake(&posted[a[0].number]);
    return 0;
}

static int call_wait(const struct argument *a)
{
    while (!posted[a[0].number])
        schedule_wait(&posted[a[0].number], "waits for a post");
    return 0;
}

static const struct {
    const char *name;
    const char *arguments;
    int (*call)(const struct argument *);
} calls[] = {
#define CALL(name, arguments) {#name, arguments, call_##name},
#include "calls.def"
#undef CALL
};

/* --- reading a text --------------------------------------------------------------------------- */

static void not_understood(const char *what)
{
    fprintf(stderr, "programs.def: not understood: %s\n", what != NULL ? what : "(end)");
    exit(2);
}

static size_t number_of(const char *word)
{
    char *unit;
    size_t number = strtoull(word, &unit, 10);
    return number << (*unit == 'M' ? 20 : *unit == 'K' ? 10 : 0);
}

static enum cudaStreamCaptureMode mode_of(const char *word)
{
    return strcmp(word, "global") == 0  ? cudaStreamCaptureModeGlobal
           : strcmp(word, "local") == 0 ? cudaStreamCaptureModeThreadLocal
                                        : cudaStreamCaptureModeRelaxed;
}

static struct argument argument_of(char kind, const char *word)
{
    if (word == NULL)
        not_understood(word);
    if (kind == 'b')
        return (struct argument){.number = (size_t)(word[0] - 'a') % BLOCKS};
    if (kind == 's')
        return (struct argument){.number = (size_t)(word[1] - '0') % STREAMS};
    if (kind == 'c')
        return (struct argument){.number = (size_t)(word[1] - '0') % CONTEXTS};
    return (struct argument){.number = number_of(word), .mode = mode_of(word)};
}

static void call_run(struct thread *thread, char *text)
{
    struct argument arguments[ARGUMENTS] = {{0, 0}};
    char *rest = NULL, *name = strtok_r(text, " ", &rest);
    for (size_t i = 0; name != NULL && i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (strcmp(calls[i].name, name) != 0)
            continue;
        for (size_t k = 0; calls[i].arguments[k] != '\0'; k++)
            arguments[k] = argument_of(calls[i].arguments[k], strtok_r(NULL, " ", &rest));
        schedule_says(calls[i].name);
        schedule_point(SCHEDULE_COARSE, calls[i].name);
        thread->names[thread->count] = calls[i].name;
        thread->results[thread->count++] = calls[i].call(arguments);
        return;
    }
    not_understood(name);
}

static void text_run(struct thread *thread, const char *text)
{
    char *rest = NULL;
    strncpy(thread->text, text, TEXT - 1);
    for (char *call = strtok_r(thread->text, ";", &rest); call != NULL;
         call = strtok_r(NULL, ";", &rest)) {
        if (thread->count == CALLS)
            not_understood("too many calls");
        call_run(thread, call);
    }
    cudaGetLastError();
    schedule_says("its end");
}

static void outcome_add(char *outcome, size_t outcome_bytes, const struct thread *thread)
{
    size_t length = strlen(outcome);
    for (int i = 0; i < thread->count && length < outcome_bytes; i++)
        length += (size_t)snprintf(outcome + length, outcome_bytes - length, "%s=%d ",
                                   thread->names[i], thread->results[i]);
    if (length < outcome_bytes)
        snprintf(outcome + length, outcome_bytes - length, "| ");
}

static struct thread threads[SCRIPT_THREADS + 1];
static const char *texts[SCRIPT_THREADS + 1];

static void *thread_main(void *argument)
{
    struct thread *thread = argument;
    text_run(thread, texts[thread - threads]);
    return NULL;
}

void script_run(const struct script_program *program, char *outcome, size_t outcome_bytes)
{
    int count = 0;
    cudaSetDevice(0);
    text_run(&threads[0], program->first);
    outcome_add(outcome, outcome_bytes, &threads[0]);
    for (; count < SCRIPT_THREADS && program->threads[count] != NULL; count++)
        texts[count + 1] = program->threads[count];
    for (int i = 1; i <= count; i++)
        pthread_create(&threads[i].handle, NULL, thread_main, &threads[i]);
    schedule_says("the end of its threads");
    for (int i = 1; i <= count; i++)
        schedule_join(threads[i].handle);
    cudaDeviceSynchronize(); /* host functions are threads, too */
    for (int i = 1; i <= count; i++)
        outcome_add(outcome, outcome_bytes, &threads[i]);
}

void script_end(const struct script_program *program, char *outcome, size_t outcome_bytes)
{
    struct vrsim_live live;
    for (int c = 0; c < CONTEXTS; c++)
        if (context[c] != NULL)
            cuCtxDestroy(context[c]);
    for (int d = 0; d < program->devices; d++)
        cuDevicePrimaryCtxReset(d);
    vrsim_live(&live);
    size_t length = strlen(outcome);
    if (length < outcome_bytes)
        snprintf(outcome + length, outcome_bytes - length, "left %llu %llu %llu",
                 (unsigned long long)live.device_blocks, (unsigned long long)live.handles,
                 (unsigned long long)live.mappings);
}
