"""Driver and runtime through Python's ctypes."""
import ctypes

driver = ctypes.CDLL("libcuda.so.1")
print("cuInit", driver.cuInit(0))
context, block = ctypes.c_void_p(), ctypes.c_uint64()
print("retain", driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
print("current", driver.cuCtxSetCurrent(context))
for size in (1, 100000, 50 << 20):
    print("alloc", size, driver.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size)))
    print("free", driver.cuMemFree_v2(block), driver.cuMemFree_v2(block))
runtime = ctypes.CDLL("libcudart.so.13")
pointer = ctypes.c_void_p()
print("cudaMalloc", runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)))
print("cudaFree", runtime.cudaFree(pointer))
