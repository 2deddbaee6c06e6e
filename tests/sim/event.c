/* event.c - events: a mark behind the work of a stream or of a context.
 *
 * An event keeps the operation it stands behind. Recorded on a capturing stream it stands for a
 * place in the capture instead.
 *
 * Lock: sim.lock is held by the callers.
 */
#include "sim.h"

#include <stdlib.h>

struct event *event_alive(CUevent handle)
{
    for (struct event *event = sim.events; event != NULL; event = event->next)
        if ((CUevent)event == handle)
            return event->alive ? event : NULL;
    return NULL;
}

uint64_t events_live(void)
{
    uint64_t count = 0;
    for (const struct event *event = sim.events; event != NULL; event = event->next)
        count += event->alive;
    return count;
}

static struct event *event_struct(void)
{
    for (struct event *event = sim.events; event != NULL; event = event->next)
        if (!event->alive)
            return event;
    struct event *event = calloc(1, sizeof(*event));
    event->next = sim.events;
    sim.events = event;
    return event;
}

CUresult event_create(CUevent *out, unsigned int flags)
{
    struct context *context;
    CUresult result = context_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (out == NULL || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    struct event *event = event_struct();
    struct event *next = event->next;
    *event = (struct event){
        .next = next, .alive = true, .flags = flags, .context = context, .context_id = context->id};
    *out = (CUevent)event;
    return CUDA_SUCCESS;
}

static void event_drop(struct event *event)
{
    op_release(event->op);
    event->op = NULL;
    event->alive = false;
}

CUresult event_destroy(CUevent handle)
{
    struct event *event = event_alive(handle);
    if (event == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    event_drop(event);
    return CUDA_SUCCESS;
}

void events_drop_context(const struct context *context)
{
    for (struct event *event = sim.events; event != NULL; event = event->next)
        if (event->alive && event->context == context)
            event_drop(event);
}

void event_set(struct event *event, struct op *op)
{
    op_release(event->op);
    event->op = op;
    event->capture = NULL;
}

CUresult event_record_flags(CUevent handle, CUstream stream_handle, unsigned int flags)
{
    struct stream *stream;
    struct event *event = event_alive(handle);
    CUresult result = stream_find(stream_handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (event == NULL || event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((flags & ~(unsigned int)CU_EVENT_RECORD_EXTERNAL) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = capture_check_stream(stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct op *op = NULL;
    struct work work = {.kind = OP_EMPTY};
    if (stream->capture == NULL)
        work_submit_op(stream, &work, &op);
    event_set(event, op);
    event->capture = stream->capture;
    event->capture_id = stream->capture != NULL ? stream->capture->id : 0;
    event->origin = stream;
    event->origin_ops = stream->captured_ops;
    return CUDA_SUCCESS;
}

CUresult event_record(CUevent handle, CUstream stream)
{
    return event_record_flags(handle, stream, 0);
}

/* May the event be asked or waited for? */
static CUresult event_check(CUevent handle, struct event **out)
{
    struct event *event = event_alive(handle);
    if (event == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = event;
    if (event->capture != NULL) {
        for (struct capture *capture = sim.captures; capture != NULL; capture = capture->next)
            if (capture == event->capture && capture->id == event->capture_id)
                capture->invalid = true;
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    return capture_prohibits() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult event_query(CUevent handle)
{
    struct event *event;
    CUresult result = event_check(handle, &event);
    if (result != CUDA_SUCCESS)
        return result;
    if (!op_done(event->op))
        return CUDA_ERROR_NOT_READY;
    return event->context->fault;
}

CUresult event_synchronize(CUevent handle)
{
    struct event *event;
    CUresult result = event_check(handle, &event);
    if (result != CUDA_SUCCESS)
        return result;
    struct context *context = event->context;
    op_wait(event->op);
    mempools_settle();
    return context->fault;
}

CUresult event_elapsed(float *ms, CUevent from_handle, CUevent to_handle)
{
    struct event *from = event_alive(from_handle), *to = event_alive(to_handle);
    if (ms == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (from == NULL || to == NULL || from->op == NULL || to->op == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!op_done(from->op) || !op_done(to->op))
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((double)to->op->end_ns - (double)from->op->end_ns) / 1e6f;
    return CUDA_SUCCESS;
}
