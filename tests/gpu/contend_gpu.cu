/* contend_gpu.cu - the device of the GPU benchmark: a kernel that lasts, and how much of the card NVML says is used
 * (cudaMemGetInfo counts the library's idle memory as free).
 */
#include <dlfcn.h>

#include "contend.h"

static __device__ unsigned long long nanoseconds()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__global__ void last(unsigned *word, unsigned long long ns)
{
    unsigned long long end = nanoseconds() + ns;
    while (nanoseconds() < end) {
    }
    *word = 1;
}

static const char *said(cudaError_t status)
{
    return status == cudaSuccess ? NULL : cudaGetErrorName(status);
}

const char *device_prepare(void)
{
    cudaFuncAttributes attributes;
    return said(cudaFuncGetAttributes(&attributes, last));
}

const char *device_launch(cudaStream_t stream, unsigned long long ns, void *word)
{
    last<<<1, 1, 0, stream>>>((unsigned *)word, ns);
    return said(cudaGetLastError());
}

struct nvml_memory {
    unsigned long long total, free, used;
};

typedef int (*nvml_memory_info)(void *, struct nvml_memory *);

static nvml_memory_info nvml_open(void **device)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == NULL)
        return NULL;
    int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
    int (*handle)(unsigned, void **) = (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    if (init == NULL || handle == NULL || init() != 0 || handle(0, device) != 0)
        return NULL;
    return (nvml_memory_info)dlsym(library, "nvmlDeviceGetMemoryInfo");
}

long long device_used(void)
{
    static void *device;
    static nvml_memory_info ask = nvml_open(&device);
    struct nvml_memory memory = {0, 0, 0};
    return ask != NULL && ask(device, &memory) == 0 ? (long long)memory.used : -1;
}
