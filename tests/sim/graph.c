/* graph.c - graphs: captured work, kept in order and given to a stream at every launch.
 *
 * What it leaves out: adding nodes by hand, dependencies (nodes run one after another), updates.
 * An executable graph is a copy; memory of allocation nodes is shared and lasts as long as either.
 *
 * Lock: sim.lock is held by the callers.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct graph *graph_alive(CUgraph handle)
{
    for (struct graph *graph = sim.graphs; graph != NULL; graph = graph->next)
        if ((CUgraph)graph == handle)
            return graph->alive ? graph : NULL;
    return NULL;
}

static struct graph *graph_new(void)
{
    struct graph *graph = calloc(1, sizeof(*graph));
    graph->alive = true;
    graph->next = sim.graphs;
    sim.graphs = graph;
    return graph;
}

CUresult graph_create(CUgraph *out, unsigned int flags)
{
    if (out == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraph)graph_new();
    return CUDA_SUCCESS;
}

void graph_add(struct graph *graph, const struct work *work)
{
    graph->nodes = realloc(graph->nodes, (graph->count + 1) * sizeof(*graph->nodes));
    struct work *node = &graph->nodes[graph->count++];
    *node = *work;
    node->after = NULL;
    node->ranges = NULL;
    if (work->range_count != 0) {
        struct vrsim_range *ranges = calloc(work->range_count, sizeof(*ranges));
        memcpy(ranges, work->ranges, work->range_count * sizeof(*ranges));
        node->ranges = ranges;
    }
}

void graph_add_block(struct graph *graph, struct block *block)
{
    graph->blocks = realloc(graph->blocks, (graph->block_count + 1) * sizeof(struct block *));
    graph->blocks[graph->block_count++] = block;
    block->open_count++;
}

static void graph_drop(struct graph *graph)
{
    for (size_t i = 0; i < graph->count; i++)
        free((void *)(uintptr_t)graph->nodes[i].ranges);
    for (size_t i = 0; i < graph->block_count; i++)
        if (--graph->blocks[i]->open_count == 0)
            card_give(graph->blocks[i]);
    free(graph->nodes);
    free(graph->blocks);
    struct graph **link = &sim.graphs;
    while (*link != graph)
        link = &(*link)->next;
    *link = graph->next;
    free(graph);
}

CUresult graph_destroy(CUgraph handle)
{
    struct graph *graph = graph_alive(handle);
    if (graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    graph_drop(graph);
    return CUDA_SUCCESS;
}

CUresult graph_instantiate(CUgraphExec *out, CUgraph handle, unsigned long long flags)
{
    struct graph *graph = graph_alive(handle);
    (void)flags;
    if (out == NULL || graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct graph *copy = graph_new();
    for (size_t i = 0; i < graph->count; i++)
        graph_add(copy, &graph->nodes[i]);
    for (size_t i = 0; i < graph->block_count; i++)
        graph_add_block(copy, graph->blocks[i]);
    *out = (CUgraphExec)copy;
    return CUDA_SUCCESS;
}

CUresult graph_launch(CUgraphExec handle, CUstream stream_handle)
{
    struct stream *stream;
    struct graph *graph = graph_alive((CUgraph)handle);
    CUresult result = stream_find(stream_handle, &stream);
    if (result == CUDA_SUCCESS && graph == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; result == CUDA_SUCCESS && i < graph->count; i++)
        result = work_submit(stream, &graph->nodes[i]);
    return result;
}

CUresult graph_exec_destroy(CUgraphExec handle)
{
    return graph_destroy((CUgraph)handle);
}
