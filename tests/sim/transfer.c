/* transfer.c - copies and fills: they move real bytes when submitted, and take time on the stream.
 *
 * Copies from or to the host wait for their end, copies within the device and fills do not, as the
 * real calls; the asynchronous flavours never wait. A range on the device must lie in one block, or
 * in memory by handle that is mapped side by side.
 *
 * What it leaves out: bytes that arrive late. A copy queued behind a running kernel moves at once.
 *
 * Lock: sim.lock is held by the callers.
 */
#include "sim.h"

#include <string.h>

enum { COPY_BYTES_A_NS = 100, FILL_BYTES_A_NS = 1000 };

/* Where the simulator finds the byte at an address, and how many follow it there (*bytes is cut to
 * that); NULL when a device address is no good. */
static char *transfer_view(CUdeviceptr address, size_t *bytes, bool must_be_device)
{
    struct block *block = card_find(address);
    if (block == NULL)
        return must_be_device || card_reserved(address) ? NULL : (char *)(uintptr_t)address;
    uint64_t offset = address - block->address;
    char *view = card_view(block);
    if (*bytes > block->bytes - offset)
        *bytes = block->bytes - offset;
    return view != NULL ? view + offset : NULL;
}

/* Whether all of a range can be reached. Only memory by handle goes on from one block to the next.
 */
static bool transfer_reaches(CUdeviceptr address, size_t bytes, bool must_be_device)
{
    while (bytes > 0) {
        size_t here = bytes;
        const struct block *block = card_find(address);
        if (transfer_view(address, &here, must_be_device) == NULL ||
            (here < bytes && block->kind != BLOCK_MAPPED))
            return false;
        must_be_device |= here < bytes;
        address += here;
        bytes -= here;
    }
    return true;
}

static void move_copy(const struct work *work)
{
    for (size_t at = 0; at < work->bytes;) {
        size_t bytes = work->bytes - at;
        char *to = transfer_view(work->destination + at, &bytes, false);
        const char *from = transfer_view(work->source + at, &bytes, false);
        if (to == NULL || from == NULL)
            return;
        memmove(to, from, bytes);
        at += bytes;
    }
}

static void move_fill(const struct work *work)
{
    for (size_t at = 0; at < work->bytes;) {
        size_t bytes = work->bytes - at;
        char *to = transfer_view(work->destination + at, &bytes, true);
        if (to == NULL)
            return;
        if (work->value_bytes == 1)
            memset(to, (int)work->value, bytes);
        else
            for (size_t i = 0; i < bytes; i += work->value_bytes)
                memcpy(to + i, &work->value, work->value_bytes);
        at += bytes;
    }
}

static CUresult transfer_submit(CUstream handle, const struct work *work, struct stream **out)
{
    CUresult result = stream_find(handle, out);
    return result == CUDA_SUCCESS ? work_submit(*out, work) : result;
}

static bool on_card(CUdeviceptr address)
{
    const struct block *block = card_find(address);
    return block != NULL && block->kind != BLOCK_HOST && block->kind != BLOCK_REGISTERED;
}

/* Host memory is none of the oracle's, though the card's may have been there once. */
static struct vrsim_range touched(CUdeviceptr address, size_t bytes, int write)
{
    return (struct vrsim_range){address, on_card(address) ? bytes : 0, write};
}

static CUresult copy_submit(CUstream handle, unsigned int sides, CUdeviceptr destination,
                            CUdeviceptr source, size_t bytes, struct stream **out)
{
    if (!transfer_reaches(destination, bytes, sides & TO_DEVICE) ||
        !transfer_reaches(source, bytes, sides & FROM_DEVICE))
        return CUDA_ERROR_INVALID_VALUE;
    const struct vrsim_range ranges[2] = {touched(destination, bytes, 1),
                                          touched(source, bytes, 0)};
    struct work work = {.kind = OP_KERNEL,
                        .copies = true,
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
        !transfer_reaches(address, bytes, true))
        return CUDA_ERROR_INVALID_VALUE;
    const struct vrsim_range range = {address, bytes, 1};
    struct work work = {.kind = OP_KERNEL,
                        .copies = true,
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
