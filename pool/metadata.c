/* metadata.c - host memory for the pool's own records. See metadata.h. */
#define _GNU_SOURCE
#include "metadata.h"

#include <string.h>
#include <sys/mman.h>

#define CHUNK_BYTES ((size_t)1 << 20)

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

static int chunk_add(struct metadata *metadata)
{
    struct metadata_chunk *chunk = metadata_map(CHUNK_BYTES);
    if (chunk == NULL)
        return 0;
    chunk->next = metadata->chunks;
    chunk->bytes = CHUNK_BYTES;
    metadata->chunks = chunk;
    metadata->unused = (uint8_t *)chunk + METADATA_GRAIN_BYTES;
    metadata->unused_bytes = CHUNK_BYTES - METADATA_GRAIN_BYTES;
    return 1;
}

void *metadata_take(struct metadata *metadata, size_t bytes)
{
    if (bytes == 0)
        return NULL;
    if (bytes > METADATA_SMALL_BYTES)
        return metadata_map(bytes);
    size_t grains = grains_up(bytes);
    struct metadata_free *record = metadata->free[grains - 1];
    if (record != NULL) {
        metadata->free[grains - 1] = record->next;
        memset(record, 0, grains * METADATA_GRAIN_BYTES);
        return record;
    }
    if (metadata->unused_bytes < grains * METADATA_GRAIN_BYTES && !chunk_add(metadata))
        return NULL;
    uint8_t *fresh = metadata->unused;
    metadata->unused += grains * METADATA_GRAIN_BYTES;
    metadata->unused_bytes -= grains * METADATA_GRAIN_BYTES;
    return fresh;
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
