/* metadata.c - host memory for the pool's own records. See metadata.h. */
#define _GNU_SOURCE
#include "metadata.h"

#include <string.h>
#include <sys/mman.h>

#define CHUNK_MIN_BYTES ((size_t)1 << 20)
#define CHUNK_MAX_BYTES ((size_t)64 << 20)

void *metadata_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

static size_t grains_up(size_t bytes)
{
    return (bytes + METADATA_GRAIN_BYTES - 1) / METADATA_GRAIN_BYTES;
}

/* The size of the next chunk: twice the newest. */
static size_t chunk_bytes(const struct metadata *metadata)
{
    if (metadata->chunks == NULL)
        return CHUNK_MIN_BYTES;
    size_t bytes = 2 * metadata->chunks->bytes;
    return bytes < CHUNK_MAX_BYTES ? bytes : CHUNK_MAX_BYTES;
}

static bool chunk_add(struct metadata *metadata)
{
    size_t bytes = chunk_bytes(metadata);
    struct metadata_chunk *chunk = metadata_map(bytes);
    if (chunk == NULL && bytes > CHUNK_MIN_BYTES) {
        bytes = CHUNK_MIN_BYTES;
        chunk = metadata_map(bytes);
    }
    if (chunk == NULL)
        return false;
    chunk->next = metadata->chunks;
    chunk->bytes = bytes;
    metadata->chunks = chunk;
    metadata->unused = (uint8_t *)chunk + METADATA_GRAIN_BYTES;
    metadata->unused_bytes = bytes - METADATA_GRAIN_BYTES;
    return true;
}

static void *table_take(struct metadata *metadata, size_t bytes)
{
    void *table = metadata_map(bytes);
    metadata->refused |= table == NULL;
    return table;
}

/* Small memory. *used_out: it held a record before. */
static void *record_take(struct metadata *metadata, size_t bytes, bool *used_out)
{
    size_t grains = grains_up(bytes);
    struct metadata_free *record = metadata->free[grains - 1];
    *used_out = record != NULL;
    if (record != NULL) {
        metadata->free[grains - 1] = record->next;
        return record;
    }
    if (metadata->unused_bytes < grains * METADATA_GRAIN_BYTES && !chunk_add(metadata)) {
        metadata->refused = true;
        return NULL;
    }
    uint8_t *fresh = metadata->unused;
    metadata->unused += grains * METADATA_GRAIN_BYTES;
    metadata->unused_bytes -= grains * METADATA_GRAIN_BYTES;
    return fresh;
}

void *metadata_take(struct metadata *metadata, size_t bytes)
{
    bool used;
    if (bytes == 0)
        return NULL;
    if (bytes > METADATA_SMALL_BYTES)
        return table_take(metadata, bytes);
    void *record = record_take(metadata, bytes, &used);
    if (used)
        memset(record, 0, grains_up(bytes) * METADATA_GRAIN_BYTES);
    return record;
}

void *metadata_take_as_left(struct metadata *metadata, size_t bytes)
{
    bool used;
    return bytes == 0 || bytes > METADATA_SMALL_BYTES ? metadata_take(metadata, bytes)
                                                      : record_take(metadata, bytes, &used);
}

void metadata_give(struct metadata *metadata, void *memory, size_t bytes)
{
    if (memory == NULL)
        return;
    if (bytes > METADATA_SMALL_BYTES) {
        munmap(memory, bytes);
        return;
    }
    struct metadata_free *record = memory;
    size_t grains = grains_up(bytes);
    record->next = metadata->free[grains - 1];
    metadata->free[grains - 1] = record;
}

void metadata_end(struct metadata *metadata)
{
    while (metadata->chunks != NULL) {
        struct metadata_chunk *chunk = metadata->chunks;
        metadata->chunks = chunk->next;
        munmap(chunk, chunk->bytes);
    }
    memset(metadata, 0, sizeof(*metadata));
}
