"""A full card under CuPy with its pool off: nine tenths of the free memory in one array, freed, then an FFT plan and a matrix
product, whose libraries take memory of their own. Prints results, never amounts."""
import cupy as cp

cp.cuda.set_allocator(None)
cp.cuda.set_pinned_memory_allocator(None)
for turn in range(3):
    free, _ = cp.cuda.runtime.memGetInfo()
    block = cp.empty(free // 10 * 9, dtype=cp.uint8)
    block[:1 << 20] = turn
    print("turn", turn, int(block[:1 << 20].sum()))
    del block
    signal = cp.sin(cp.arange(1 << 22, dtype=cp.float32) * (turn + 1))
    back = cp.fft.ifft(cp.fft.fft(signal)).real
    print("fft", bool(cp.abs(back - signal).max() < 1e-3))
    a = cp.ones((2048, 2048), dtype=cp.float32) * (turn + 1)
    print("product", float((a @ a)[5, 7]))
    cp.fft.config.get_plan_cache().clear()
