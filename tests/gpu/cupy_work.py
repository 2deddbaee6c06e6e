"""CuPy with its memory pool off: arrays of random length, reductions, an FFT.

usage: cupy_work.py [pool] [--paced]      pool: with its memory pool; results on stdout, the time of a step on stderr
"""
import cupy

import pace

if pace.arguments() != ["pool"]:
    cupy.cuda.set_allocator(None)
random = cupy.random.RandomState(5)
total = 0.0


def step(i):
    global total
    a = random.random_sample(1000 + i * 7919 % 500000)
    b = cupy.sqrt(a) * 3 + cupy.sin(a)
    total += float((b - b.mean()).std())
    if i % 30 == 0:
        total += float(cupy.abs(cupy.fft.fft(a[:4096])).sum())


pace.run(step, 150, 30, cupy.cuda.Device().synchronize)
print(repr(total))
