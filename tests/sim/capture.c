/* capture.c - stream captures, and which calls spoil them.
 *
 * A spoiled capture stays in progress until cuStreamEndCapture, which then answers
 * CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901); the call that spoils it answers
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900). Two kinds of spoiling calls:
 *   - waits for a whole context: any capture in that context, whatever thread and mode;
 *   - calls that may wait or allocate ("unsafe"): by mode. A thread in relaxed mode spoils none;
 * one in thread-local mode only its own captures; one in global mode also those that other threads
 *     began in global mode. A capture begun in relaxed mode is spoiled by neither.
 *
 * What it leaves out: dependencies between the nodes; a graph runs its nodes one after another.
 *
 * Lock: sim.lock is held by the callers. capture_begin waits, by sim.changed, for frees that wait.
 */
#include "sim.h"

#include <stdlib.h>

static bool capture_spoiled_by_mode(const struct capture *capture)
{
    if (sim_capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
        capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (capture->thread == state_thread_id())
        return true;
    return sim_capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

bool capture_prohibits(void)
{
    bool prohibited = false;
    for (struct capture *capture = sim.captures; capture != NULL; capture = capture->next) {
        if (capture_spoiled_by_mode(capture)) {
            capture->invalid = true;
            prohibited = true;
        }
    }
    return prohibited;
}

bool capture_prohibits_context(struct context *context)
{
    bool prohibited = false;
    for (struct capture *capture = sim.captures; capture != NULL; capture = capture->next) {
        if (capture->context == context) {
            capture->invalid = true;
            prohibited = true;
        }
    }
    return prohibited;
}

/* A capture that work on the legacy stream would have to wait for. */
static struct capture *capture_of_blocking(const struct context *context)
{
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
        if (stream->capture != NULL && !(stream->flags & CU_STREAM_NON_BLOCKING))
            return stream->capture;
    return NULL;
}

CUresult capture_check_stream(struct stream *stream)
{
    if (stream->capture != NULL)
        return stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    struct capture *implied =
        stream->kind == STREAM_LEGACY ? capture_of_blocking(stream->context) : NULL;
    if (implied == NULL)
        return CUDA_SUCCESS;
    implied->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult capture_check_idle(struct stream *stream)
{
    if (stream->capture != NULL) {
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CUresult result = capture_check_stream(stream);
    if (result != CUDA_SUCCESS)
        return result;
    return capture_prohibits() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

/* --- beginning and ending
 * ------------------------------------------------------------------------- */

static void capture_start(struct stream *stream, CUstreamCaptureMode mode, struct graph *graph)
{
    struct capture *capture = calloc(1, sizeof(*capture));
    CUgraph made = NULL;
    if (graph == NULL)
        graph_create(&made, 0);
    *capture = (struct capture){.next = sim.captures,
                                .id = sim.next_id++,
                                .mode = mode,
                                .thread = state_thread_id(),
                                .origin = stream,
                                .context = stream->context,
                                .borrowed = graph != NULL,
                                .graph = graph != NULL ? graph : graph_alive(made)};
    sim.captures = capture;
    stream->capture = capture;
    stream->captured_ops = 0;
}

/* Finds the stream once no free of its context waits. */
static CUresult capture_await(CUstream handle, struct stream **out)
{
    CUresult result = stream_find(handle, out);
    while (result == CUDA_SUCCESS && (*out)->context->free_waiters > 0) {
        pthread_cond_wait(&sim.changed, &sim.lock);
        result = stream_find(handle, out);
    }
    return result;
}

static CUresult capture_try(CUstream handle, CUstreamCaptureMode mode, struct graph *graph)
{
    struct stream *stream;
    CUresult result = capture_await(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->kind == STREAM_LEGACY)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture != NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    capture_start(stream, mode, graph);
    return CUDA_SUCCESS;
}

CUresult capture_begin(CUstream handle, CUstreamCaptureMode mode)
{
    return capture_try(handle, mode, NULL);
}

CUresult capture_begin_graph(CUstream handle, CUgraph graph_handle, CUstreamCaptureMode mode)
{
    struct graph *graph = graph_alive(graph_handle);
    return graph != NULL ? capture_try(handle, mode, graph) : CUDA_ERROR_INVALID_VALUE;
}

/* All streams leave the capture. True: one had work that the origin did not wait for. */
static bool capture_leave(struct capture *capture)
{
    bool unjoined = false;
    for (struct stream *stream = capture->context->streams; stream; stream = stream->next) {
        if (stream->capture != capture)
            continue;
        unjoined = unjoined || (stream != capture->origin && stream->capture_open);
        stream->capture = NULL;
        stream->capture_open = false;
    }
    return unjoined;
}

static void capture_remove(struct capture *capture)
{
    struct capture **link = &sim.captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    free(capture);
}

/* Ends the capture; the graph goes to *out unless the result is an error. */
static CUresult capture_finish(struct capture *capture, CUgraph *out)
{
    bool unjoined = capture_leave(capture);
    CUresult result = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : unjoined       ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                       : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS && !capture->borrowed)
        graph_destroy((CUgraph)capture->graph);
    if (out != NULL)
        *out = result == CUDA_SUCCESS ? (CUgraph)capture->graph : NULL;
    capture_remove(capture);
    return result;
}

CUresult capture_end(CUstream handle, CUgraph *out)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct capture *capture = stream->capture;
    if (capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != state_thread_id())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    return capture_finish(capture, out);
}

void capture_stream_gone(struct stream *stream)
{
    if (stream->capture == NULL)
        return;
    stream->capture->invalid = true;
    if (stream->capture->origin == stream)
        capture_finish(stream->capture, NULL);
    stream->capture = NULL;
}

/* The stream waits for an event inside a capture: it belongs to the capture from now on. */
void capture_join(struct stream *stream, struct event *event)
{
    if (stream->capture == NULL) {
        stream->captured_ops = 0;
        stream->capture_open = true;
    }
    stream->capture = event->capture;
    if (event->origin != stream && event->origin->captured_ops == event->origin_ops)
        event->origin->capture_open = false;
}

/* --- questions
 * ------------------------------------------------------------------------------------ */

static CUstreamCaptureStatus capture_status(const struct stream *stream)
{
    if (stream->capture == NULL)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult capture_is(CUstream handle, CUstreamCaptureStatus *status)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result != CUDA_SUCCESS || status == NULL)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    if (stream->kind == STREAM_LEGACY && capture_of_blocking(stream->context) != NULL)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = capture_status(stream);
    return CUDA_SUCCESS;
}

CUresult capture_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                      CUgraph *graph, const CUgraphNode **nodes, size_t *count)
{
    struct stream *stream;
    CUresult result = stream_find(handle, &stream);
    if (result == CUDA_SUCCESS)
        result = capture_is(handle, status);
    if (result != CUDA_SUCCESS)
        return result;
    struct capture *capture = stream->capture;
    if (id != NULL && capture != NULL)
        *id = capture->id;
    if (graph != NULL)
        *graph = capture != NULL ? (CUgraph)capture->graph : NULL;
    if (nodes != NULL)
        *nodes = NULL;
    if (count != NULL)
        *count = 0;
    return CUDA_SUCCESS;
}

CUresult capture_exchange_mode(CUstreamCaptureMode *mode)
{
    if (mode == NULL || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = sim_capture_mode;
    sim_capture_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
