/* context.c - contexts: created, primary and green ones, and the thread's stack of current ones.
 *
 * Structs are reused, newest first, so a handle comes back as early as it can; each life has an id
 * of its own. A primary context keeps its handle for ever and is alive while it is retained.
 *
 * Lock: sim.lock is held by the callers.
 */
#include "sim.h"

#include <stdlib.h>

enum { STACK_MAX = 64 };

/* What is current: the handle and which life of it. */
struct current {
    struct context *context;
    uint64_t id;
};

static __thread struct current stack[STACK_MAX];
static __thread int stack_depth;

static bool current_alive(const struct current *current)
{
    const struct context *context = current->context;
    return context->alive && (context->primary || context->id == current->id);
}

CUresult context_current(struct context **out)
{
    if (stack_depth == 0 || stack[stack_depth - 1].context == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!current_alive(&stack[stack_depth - 1]))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = stack[stack_depth - 1].context;
    return CUDA_SUCCESS;
}

bool context_current_destroyed(void)
{
    return stack_depth > 0 && stack[stack_depth - 1].context != NULL &&
           !stack[stack_depth - 1].context->primary && !current_alive(&stack[stack_depth - 1]);
}

struct context *context_alive(CUcontext handle)
{
    for (struct context *context = sim.contexts; context != NULL; context = context->next)
        if ((CUcontext)context == handle)
            return context->alive ? context : NULL;
    return NULL;
}

/* The primary context of the device if it is active, else any living context; for calls that work
 * with none current. */
struct context *context_default(int device)
{
    struct context *primary = sim.devices[device].primary;
    if (primary != NULL && primary->alive)
        return primary;
    for (struct context *context = sim.contexts; context != NULL; context = context->next)
        if (context->alive)
            return context;
    return NULL;
}

static void stack_push(struct context *context)
{
    if (stack_depth < STACK_MAX)
        stack[stack_depth++] = (struct current){context, context != NULL ? context->id : 0};
}

static struct context *context_struct(void)
{
    for (struct context *context = sim.contexts; context != NULL; context = context->next)
        if (!context->alive && !context->primary)
            return context;
    struct context *context = calloc(1, sizeof(*context));
    context->next = sim.contexts;
    sim.contexts = context;
    return context;
}

static void context_begin(struct context *context, int device, unsigned int flags)
{
    context->alive = true;
    context->id = sim.next_id++;
    context->device = device;
    context->flags = flags;
    context->fault = CUDA_SUCCESS;
    context->peers = 0;
    context->retains = 0;
}

void context_teardown(struct context *context)
{
    if (context->fault == CUDA_SUCCESS)
        work_wait_context(context);
    card_release_pending(context);
    card_drop_context(context);
    events_drop_context(context);
    while (context->streams != NULL) {
        struct stream *stream = context->streams;
        context->streams = stream->next;
        capture_stream_gone(stream);
        stream_drop(stream);
    }
    op_release(context->left);
    context->left = NULL;
    context->alive = false;
}

CUresult context_create(CUcontext *out, unsigned int flags, CUdevice device)
{
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_find(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    struct context *context = context_struct();
    context_begin(context, device, flags);
    stack_push(context);
    *out = (CUcontext)context;
    return CUDA_SUCCESS;
}

CUresult context_create_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
                           CUdevice device)
{
    (void)params;
    return context_create(out, flags, device);
}

CUresult context_destroy(CUcontext handle)
{
    struct context *context = context_alive(handle);
    if (context == NULL || context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    context_teardown(context);
    if (stack_depth > 0 && stack[stack_depth - 1].context == context)
        stack_depth--;
    return CUDA_SUCCESS;
}

CUresult context_detach(CUcontext handle)
{
    return context_destroy(handle);
}

CUresult context_get_current(CUcontext *out)
{
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = stack_depth > 0 ? (CUcontext)stack[stack_depth - 1].context : NULL;
    return CUDA_SUCCESS;
}

CUresult context_set_current(CUcontext handle)
{
    if (handle != NULL && context_alive(handle) == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack_depth > 0)
        stack_depth--;
    if (handle != NULL)
        stack_push((struct context *)handle);
    return CUDA_SUCCESS;
}

CUresult context_push(CUcontext handle)
{
    if (handle != NULL && context_alive(handle) == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack_depth == STACK_MAX)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack_push((struct context *)handle);
    return CUDA_SUCCESS;
}

CUresult context_pop(CUcontext *out)
{
    if (stack_depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack_depth--;
    if (out != NULL)
        *out = (CUcontext)stack[stack_depth].context;
    return CUDA_SUCCESS;
}

/* The context that a call means: the handle, or the current one for NULL. */
static CUresult context_meant(CUcontext handle, struct context **out)
{
    if (handle == NULL)
        return context_current(out);
    *out = context_alive(handle);
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult context_get_device_of(CUdevice *out, CUcontext handle)
{
    struct context *context;
    CUresult result = context_meant(handle, &context);
    if (result != CUDA_SUCCESS || out == NULL)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    *out = context->device;
    return CUDA_SUCCESS;
}

CUresult context_get_device(CUdevice *out)
{
    return context_get_device_of(out, NULL);
}

CUresult context_get_id(CUcontext handle, unsigned long long *id)
{
    struct context *context;
    CUresult result = context_meant(handle, &context);
    if (result != CUDA_SUCCESS || id == NULL)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    *id = context->id;
    return CUDA_SUCCESS;
}

CUresult context_get_flags(unsigned int *flags)
{
    struct context *context;
    CUresult result = context_current(&context);
    if (result != CUDA_SUCCESS || flags == NULL)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult context_get_api_version(CUcontext handle, unsigned int *version)
{
    struct context *context;
    CUresult result = context_meant(handle, &context);
    if (result != CUDA_SUCCESS || version == NULL)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult context_priorities(int *least, int *greatest)
{
    if (least != NULL)
        *least = 0;
    if (greatest != NULL)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult context_synchronize_of(CUcontext handle)
{
    struct context *context;
    CUresult result = context_meant(handle, &context);
    if (result != CUDA_SUCCESS)
        return result;
    if (state_is_clone())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (context->fault != CUDA_SUCCESS)
        return context->fault;
    if (capture_prohibits_context(context))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    result = work_wait_context(context);
    card_release_pending(context);
    mempools_settle();
    return result;
}

CUresult context_synchronize(void)
{
    return context_synchronize_of(NULL);
}

CUresult context_record_event(CUcontext handle, CUevent event_handle)
{
    struct context *context;
    CUresult result = context_meant(handle, &context);
    struct event *event = event_alive(event_handle);
    if (result != CUDA_SUCCESS || event == NULL)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE;
    if (event->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (context->fault != CUDA_SUCCESS)
        return context->fault;
    if (capture_prohibits_context(context))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    event_set(event, work_join(context));
    return CUDA_SUCCESS;
}

/* All work of the context from now on comes after the event. */
CUresult context_wait_event(CUcontext handle, CUevent event_handle)
{
    struct context *context;
    CUresult result = context_meant(handle, &context);
    struct event *event = event_alive(event_handle);
    if (result != CUDA_SUCCESS || event == NULL)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE;
    if (capture_prohibits_context(context))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct work work = {.kind = OP_EMPTY, .after = event->op};
    stream_legacy(context);
    for (struct stream *stream = context->streams; stream != NULL; stream = stream->next)
        if (stream->alive)
            work_submit_op(stream, &work, NULL);
    return CUDA_SUCCESS;
}

CUresult context_enable_peer(CUcontext peer_handle, unsigned int flags)
{
    struct context *context, *peer = context_alive(peer_handle);
    CUresult result = context_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (peer == NULL || peer->device == context->device)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->peers & (UINT64_C(1) << peer->device))
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context->peers |= UINT64_C(1) << peer->device;
    return CUDA_SUCCESS;
}

CUresult context_disable_peer(CUcontext peer_handle)
{
    struct context *context, *peer = context_alive(peer_handle);
    CUresult result = context_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (peer == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!(context->peers & (UINT64_C(1) << peer->device)))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~(UINT64_C(1) << peer->device);
    return CUDA_SUCCESS;
}

/* --- primary contexts ------------------------------------------------------------------------ */

CUresult primary_retain(CUcontext *out, CUdevice device)
{
    struct device *found = device_find(device);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (found == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (found->primary == NULL) {
        found->primary = calloc(1, sizeof(*found->primary));
        found->primary->primary = true;
        found->primary->next = sim.contexts;
        sim.contexts = found->primary;
    }
    if (!found->primary->alive)
        context_begin(found->primary, device, found->primary->flags);
    found->primary->retains++;
    *out = (CUcontext)found->primary;
    return CUDA_SUCCESS;
}

CUresult primary_release(CUdevice device)
{
    struct device *found = device_find(device);
    if (found == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (found->primary == NULL || !found->primary->alive || found->primary->retains == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--found->primary->retains == 0)
        context_teardown(found->primary);
    return CUDA_SUCCESS;
}

CUresult primary_reset(CUdevice device)
{
    struct device *found = device_find(device);
    if (found == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (found->primary != NULL && found->primary->alive) {
        context_teardown(found->primary);
        found->primary->flags = 0;
    }
    return CUDA_SUCCESS;
}

CUresult primary_get_state(CUdevice device, unsigned int *flags, int *active)
{
    struct device *found = device_find(device);
    if (found == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags == NULL || active == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = found->primary != NULL ? found->primary->flags : 0;
    *active = found->primary != NULL && found->primary->alive;
    return CUDA_SUCCESS;
}

CUresult primary_set_flags(CUdevice device, unsigned int flags)
{
    struct device *found = device_find(device);
    if (found == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (found->primary != NULL)
        found->primary->flags = flags;
    return CUDA_SUCCESS;
}

/* --- green contexts: a context of the device, with all of its resources --------------------------
 */

CUresult green_create(CUgreenCtx *out, CUdevResourceDesc description, CUdevice device,
                      unsigned int flags)
{
    if (out == NULL || description == NULL || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_find(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (sim.devices[device].primary == NULL || !sim.devices[device].primary->alive)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct context *context = context_struct();
    context_begin(context, device, 0);
    *out = (CUgreenCtx)context;
    return CUDA_SUCCESS;
}

CUresult green_destroy(CUgreenCtx green)
{
    return context_destroy((CUcontext)green);
}

CUresult green_context(CUcontext *out, CUgreenCtx green)
{
    if (out == NULL || context_alive((CUcontext)green) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUcontext)green;
    return CUDA_SUCCESS;
}

CUresult green_device_resource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    if (device_find(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (resource == NULL || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *resource = (CUdevResource){.type = type, .sm = {.smCount = 132}};
    return CUDA_SUCCESS;
}
