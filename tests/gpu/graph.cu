/* graph.cu - captures: graph memory nodes, and allocations on another thread while a stream captures. */
#include <cstdio>
#include <cstdlib>
#include <thread>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        cudaError_t status_ = (call);                                                              \
        if (status_ != cudaSuccess) {                                                              \
            printf("%s: %s\n", #call, cudaGetErrorName(status_));                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

__global__ void add(unsigned *words, unsigned value)
{
    words[threadIdx.x] += value;
}

int main()
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    unsigned *sum, *node, host[256];
    CHECK(cudaMalloc((void **)&sum, 1024));
    CHECK(cudaMemset(sum, 0, 1024));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 20; round++) {
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaMallocAsync((void **)&node, 1 << 20, stream));
        CHECK(cudaMemsetAsync(node, 0, 1 << 20, stream));
        add<<<1, 256, 0, stream>>>(node, 3);
        std::thread other([&] {
            void *block[10];
            CHECK(cudaSetDevice(0));
            for (int i = 0; i < 10; i++)
                CHECK(cudaMalloc(&block[i], (size_t)1 << (10 + 2 * i)));
            for (int i = 0; i < 10; i++)
                CHECK(cudaFree(block[i]));
        });
        other.join();
        add<<<1, 256, 0, stream>>>(sum, 1);
        CHECK(cudaFreeAsync(node, stream));
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < 50; i++)
            CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }
    CHECK(cudaMemcpy(host, sum, 1024, cudaMemcpyDeviceToHost));
    printf("sums %u %u\n", host[0], host[255]);
    CHECK(cudaFree(sum));
    return host[0] != 1000;
}
