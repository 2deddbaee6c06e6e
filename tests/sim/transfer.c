/* transfer.c - copies and fills: they move real bytes when submitted, and take time on the stream.
 *
 * Copies from or to the host wait for their end, copies within the device and fills do not, as the
 * real calls; the asynchronous flavours never wait. Addresses of the device must lie in one block.
 *
 * What it leaves out: bytes that arrive late. A copy queued behind a running kernel moves at once.
 *
 * Lock: sim.lock is held by the callers.
 */
#include "sim.h"

#include <string.h>

enum { COPY_BYTES_A_NS = 100, FILL_BYTES_A_NS = 1000 };

/* Where the simulator finds these bytes; NULL when a device address is no good. */
static char *transfer_view(CUdeviceptr address, size_t bytes, bool must_be_device)
{
    struct block *block = card_find(address);
    if (block == NULL)
        return must_be_device ? NULL : (char *)(uintptr_t)address;
    uint64_t offset = address - block->address;
    if (bytes > block->bytes - offset)
        return NULL;
    char *view = card_view(block);
    return view != NULL ? view + offset : NULL;
}

static void move_copy(const struct work *work)
{
    char *to = transfer_view(work->destination, work->bytes, false);
    const char *from = transfer_view(work->source, work->bytes, false);
    if (to != NULL && from != NULL)
        memmove(to, from, work->bytes);
}

static void move_fill(const struct work *work)
{
    char *to = transfer_view(work->destination, work->bytes, true);
    if (to == NULL)
        return;
    if (work->value_bytes == 1) {
        memset(to, (int)work->value, work->bytes);
        return;
    }
    for (size_t at = 0; at < work->bytes; at += work->value_bytes)
        memcpy(to + at, &work->value, work->value_bytes);
}

static CUresult transfer_submit(CUstream handle, const struct work *work, struct stream **out)
{
    CUresult result = stream_find(handle, out);
    return result == CUDA_SUCCESS ? work_submit(*out, work) : result;
}

static CUresult copy_submit(CUstream handle, unsigned int sides, CUdeviceptr destination,
                            CUdeviceptr source, size_t bytes, struct stream **out)
{
    if (transfer_view(destination, bytes, sides & TO_DEVICE) == NULL ||
        transfer_view(source, bytes, sides & FROM_DEVICE) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct vrsim_range ranges[2] = {{destination, bytes, 1}, {source, bytes, 0}};
    struct work work = {.kind = OP_KERNEL,
                        .duration_ns = bytes / COPY_BYTES_A_NS,
                        .range_count = 2,
                        .ranges = ranges,
                        .move = move_copy,
                        .destination = destination,
                        .source = source,
                        .bytes = bytes};
    return transfer_submit(handle, &work, out);
}

CUresult transfer_copy_async(CUstream handle, unsigned int sides, CUdeviceptr destination,
                             CUdeviceptr source, size_t bytes)
{
    struct stream *stream;
    if (bytes == 0)
        return CUDA_SUCCESS;
    return copy_submit(handle, sides, destination, source, bytes, &stream);
}

static bool on_card(CUdeviceptr address)
{
    const struct block *block = card_find(address);
    return block != NULL && block->kind != BLOCK_HOST && block->kind != BLOCK_REGISTERED;
}

CUresult transfer_copy(CUstream handle, unsigned int sides, CUdeviceptr destination,
                       CUdeviceptr source, size_t bytes)
{
    struct stream *stream;
    if (bytes == 0)
        return CUDA_SUCCESS;
    CUresult result = copy_submit(handle, sides, destination, source, bytes, &stream);
    if (result != CUDA_SUCCESS || (on_card(destination) && on_card(source)))
        return result;
    struct context *context = stream->context;
    op_wait(stream->tail);
    return context->fault;
}

CUresult transfer_set(CUstream handle, CUdeviceptr address, unsigned int value,
                      unsigned int value_bytes, size_t count)
{
    struct stream *stream;
    size_t bytes;
    if (count == 0)
        return CUDA_SUCCESS;
    if (__builtin_mul_overflow(count, value_bytes, &bytes) || address % value_bytes != 0 ||
        transfer_view(address, bytes, true) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct vrsim_range range = {address, bytes, 1};
    struct work work = {.kind = OP_KERNEL,
                        .duration_ns = bytes / FILL_BYTES_A_NS,
                        .range_count = 1,
                        .ranges = &range,
                        .move = move_fill,
                        .destination = address,
                        .bytes = bytes,
                        .value = value,
                        .value_bytes = value_bytes};
    return transfer_submit(handle, &work, &stream);
}
