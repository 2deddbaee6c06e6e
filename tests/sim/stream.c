/* stream.c - streams: the legacy one and a thread's own per context, and created ones; what is
 * given to them: simulated kernels, host functions, waits.
 *
 * Structs are reused, newest first, so a handle comes back as early as it can; ids never do.
 *
 * Lock: sim.lock is held by the callers.
 */
#include "sim.h"

#include <stdlib.h>

static struct stream *dropped; /* structs to reuse, linked by next */
static struct stream **known;  /* every struct ever made */
static size_t known_count;

static struct stream *stream_struct(void)
{
    if (dropped != NULL) {
        struct stream *stream = dropped;
        dropped = stream->next;
        return stream;
    }
    known = realloc(known, (known_count + 1) * sizeof(*known));
    known[known_count] = calloc(1, sizeof(struct stream));
    return known[known_count++];
}

static struct stream *stream_new(struct context *context, enum stream_kind kind, unsigned int flags,
                                 int priority)
{
    struct stream *stream = stream_struct();
    *stream = (struct stream){.alive = true,
                              .kind = kind,
                              .flags = flags,
                              .priority = priority,
                              .id = sim.next_id++,
                              .thread = kind == STREAM_THREAD ? state_thread_id() : 0,
                              .context = context,
                              .slot = work_slot_take()};
    stream->next = context->streams;
    context->streams = stream;
    return stream;
}

/* The struct is no longer in its context's list. */
void stream_drop(struct stream *stream)
{
    work_slot_give(stream->slot);
    op_release(stream->tail);
    stream->tail = NULL;
    stream->alive = false;
    stream->next = dropped;
    dropped = stream;
}

/* The context's stream of a kind that exists once, or once a thread. */
static struct stream *stream_implicit(struct context *context, enum stream_kind kind)
{
    uint64_t thread = kind == STREAM_THREAD ? state_thread_id() : 0;
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
        if (stream->kind == kind && stream->thread == thread)
            return stream;
    return stream_new(context, kind, CU_STREAM_DEFAULT, 0);
}

struct stream *stream_legacy(struct context *context)
{
    return stream_implicit(context, STREAM_LEGACY);
}

CUresult stream_find(CUstream handle, struct stream **out)
{
    struct context *context;
    if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        CUresult result = context_current(&context);
        if (result == CUDA_SUCCESS)
            *out = stream_implicit(context,
                                   handle == CU_STREAM_LEGACY ? STREAM_LEGACY : STREAM_THREAD);
        return result;
    }
    for (size_t i = 0; i < known_count; i++) {
        if ((CUstream)known[i] == handle && known[i]->alive) {
            *out = known[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_HANDLE;
}

CUresult stream_create(CUstream *out, unsigned int flags, int priority)
{
    struct context *context;
    CUresult result = context_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (out == NULL || (flags & ~(unsigned int)CU_STREAM_NON_BLOCKING) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUstream)stream_new(context, STREAM_USER, flags, priority);
    return CUDA_SUCCESS;
}

CUresult stream_destroy(CUstream handle)
{
    struct stream *stream;
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    capture_stream_gone(stream);
    work_left(stream);
    struct stream **link = &stream->context->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    stream_drop(stream);
    return CUDA_SUCCESS;
}

CUresult stream_synchronize(CUstream handle)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    result = capture_check_idle(stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct context *context = stream->context;
    struct work work = {.kind = OP_EMPTY};
    if (stream->kind == STREAM_LEGACY)
        work_submit_op(stream, &work, NULL); /* behind the blocking streams */
    op_wait(stream->tail);
    mempools_settle();
    return context->fault;
}

CUresult stream_query(CUstream handle)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    result = capture_check_idle(stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct work work = {.kind = OP_EMPTY};
    if (stream->kind == STREAM_LEGACY)
        work_submit_op(stream, &work, NULL);
    if (!op_done(stream->tail))
        return CUDA_ERROR_NOT_READY;
    return stream->context->fault;
}

static bool event_in_capture(const struct event *event)
{
    for (struct capture *capture = sim.captures; capture != NULL; capture = capture->next)
        if (event->capture == capture && event->capture_id == capture->id)
            return true;
    return false;
}

CUresult stream_wait_event(CUstream handle, CUevent event_handle, unsigned int flags)
{
    struct stream *stream;
    struct event *event = event_alive(event_handle);
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (event == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((flags & ~(unsigned int)CU_EVENT_WAIT_EXTERNAL) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (event_in_capture(event)) {
        capture_join(stream, event);
        return CUDA_SUCCESS;
    }
    if (stream->capture != NULL && event->op != NULL) {
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    struct work work = {.kind = OP_EMPTY, .after = event->op};
    return event->op != NULL ? work_submit(stream, &work) : CUDA_SUCCESS;
}

CUresult stream_get_id(CUstream handle, unsigned long long *id)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS || id == NULL)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    if (stream->capture !=
        NULL) { /* measured: the one query that spoils the stream's own capture */
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    *id = stream->id;
    return CUDA_SUCCESS;
}

CUresult stream_get_context(CUstream handle, CUcontext *out)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS || out == NULL)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    *out = (CUcontext)stream->context;
    return CUDA_SUCCESS;
}

CUresult stream_get_context_v2(CUstream handle, CUcontext *out, CUgreenCtx *green)
{
    if (green != NULL)
        *green = NULL;
    return stream_get_context(handle, out);
}

CUresult stream_get_flags(CUstream handle, unsigned int *flags)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS || flags == NULL)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult stream_get_priority(CUstream handle, int *priority)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS || priority == NULL)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult stream_get_device(CUstream handle, CUdevice *device)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS || device == NULL)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    *device = stream->context->device;
    return CUDA_SUCCESS;
}

/* --- work ------------------------------------------------------------------------------------ */

static CUresult stream_give(CUstream handle, const struct work *work)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    return result == CUDA_SUCCESS ? work_submit(stream, work) : result;
}

static void host_call(void *function, void *data)
{
    ((CUhostFn)function)(data);
}

CUresult stream_launch_host(CUstream handle, CUhostFn function, void *data)
{
    struct work work = {
        .kind = OP_HOST, .host = host_call, .host_a = (void *)function, .host_b = data};
    return function != NULL ? stream_give(handle, &work) : CUDA_ERROR_INVALID_VALUE;
}

struct callback {
    CUstreamCallback function;
    CUstream stream;
    void *data;
};

static void callback_call(void *argument, void *unused)
{
    struct callback callback = *(struct callback *)argument;
    (void)unused;
    free(argument);
    callback.function(callback.stream, CUDA_SUCCESS, callback.data);
}

CUresult stream_add_callback(CUstream handle, CUstreamCallback function, void *data,
                             unsigned int flags)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (function == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != NULL) {
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    struct callback *callback = malloc(sizeof(*callback));
    *callback = (struct callback){function, handle, data};
    struct work work = {.kind = OP_HOST, .host = callback_call, .host_a = callback};
    return work_submit(stream, &work);
}

CUresult stream_launch(CUstream handle, uint64_t duration_ns, size_t count,
                       const struct vrsim_range *ranges)
{
    struct work work = {
        .kind = OP_KERNEL, .duration_ns = duration_ns, .range_count = count, .ranges = ranges};
    return stream_give(handle, &work);
}

CUresult stream_launch_spin(CUstream handle, volatile int *flag, size_t count,
                            const struct vrsim_range *ranges)
{
    struct work work = {.kind = OP_SPIN, .flag = flag, .range_count = count, .ranges = ranges};
    return flag != NULL ? stream_give(handle, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult stream_launch_fault(CUstream handle, uint64_t duration_ns, CUresult code)
{
    struct work work = {.kind = OP_KERNEL, .duration_ns = duration_ns, .fault = code};
    return stream_give(handle, &work);
}
