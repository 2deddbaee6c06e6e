"""A Numba kernel over arrays that come and go."""
import numpy

if not hasattr(numpy, "row_stack"):  # gone since NumPy 2.5; Numba of the same age still looks for it
    numpy.row_stack = numpy.vstack
from numba import cuda


@cuda.jit
def scale(a, factor):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = a[i] * factor + i


total = 0.0
for n in range(100):
    host = numpy.arange(1000 + n * 977, dtype=numpy.float64)
    device = cuda.to_device(host)
    scale[(host.size + 255) // 256, 256](device, 1.5)
    total += device.copy_to_host().sum()
    del device
print(repr(float(total)))
