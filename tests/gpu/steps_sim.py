"""A program for tests/gpu/steps --sim: blocks of the simulated driver, by the stand-in runtime."""
import ctypes

import pace

runtime = ctypes.CDLL("libcudart.so.13")
runtime.cudaMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
runtime.cudaFree.argtypes = [ctypes.c_void_p]


def step(i):
    blocks = [ctypes.c_void_p() for _ in range(50)]
    print(i, sum(runtime.cudaMalloc(ctypes.byref(block), 1000 * j + i + 1) for j, block in enumerate(blocks)),
          sum(runtime.cudaFree(block) for block in blocks))


pace.run(step, 12, 4, runtime.cudaDeviceSynchronize)
