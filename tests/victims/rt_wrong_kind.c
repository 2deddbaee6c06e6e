/* Memory of one kind given to the free of another. */
#include "victim.h"

int main(void)
{
    void *host, *managed, *device, *ordered;
    int local;
    MUST(cudaMallocHost(&host, 5000));
    MUST(cudaMallocManaged(&managed, 5000, cudaMemAttachGlobal));
    MUST(cudaMalloc(&device, 5000));
    MUST(cudaMallocAsync(&ordered, 5000, 0));
    SHOW(cudaFree(host));
    SHOW_LAST();
    SHOW(cudaFree(&local));
    SHOW_LAST();
    SHOW(cudaFreeHost(device));
    SHOW_LAST();
    SHOW(cudaFreeHost(ordered));
    SHOW_LAST();
    SHOW(cudaFreeAsync(host, 0));
    SHOW_LAST();
    SHOW(cudaFreeAsync(&local, 0));
    SHOW_LAST();
    SHOW(cudaFree(managed));
    SHOW(cudaFree(managed));
    SHOW_LAST();
    printf("right %d %d\n", pattern_ok(device, 5000, 1), pattern_ok(ordered, 5000, 2));
    SHOW(cudaFree(device));
    SHOW(cudaFree(ordered));
    SHOW(cudaFreeHost(host));
    return 0;
}
