"""CuPy with its memory pool off: arrays of random length, reductions, an FFT."""
import cupy

cupy.cuda.set_allocator(None)
random = cupy.random.RandomState(5)
total = 0.0
for i in range(150):
    a = random.random_sample(1000 + i * 7919 % 500000)
    b = cupy.sqrt(a) * 3 + cupy.sin(a)
    total += float((b - b.mean()).std())
    if i % 30 == 0:
        total += float(cupy.abs(cupy.fft.fft(a[:4096])).sum())
print(repr(total))
