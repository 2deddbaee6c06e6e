"""What an allocation and a free cost with CuPy's memory pool, called as a program calls it: from Python.

usage: contend_cupy.py pairs|busy|threads|"rotate BYTES" MS

The rows and the lines are those of contend.c, which says what they mean. A figure has the interpreter in it; "interpreter"
is what the same loop takes with a function that does nothing. Threads share the interpreter's lock.
"""
import ctypes
import sys
import threading
import time

import cupy

BATCHES, AHEAD, LIVE, KERNEL_NS, BUSY_PAIRS, THREAD_BATCHES = 7, 16, 64, 20000, 100, 50
MIB = 1 << 20
KERNEL = cupy.RawKernel(r"""
extern "C" __global__ void last(unsigned *word, unsigned long long ns) {
    unsigned long long now, end;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    end = now + ns;
    while (now < end)
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    *word = 1;
}""", "last")
now = time.perf_counter_ns


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Card:
    """As NVML sees it; used() is None where it does not answer."""

    def __init__(self):
        self.device = ctypes.c_void_p()
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)):
                self.nvml = None
        except OSError:
            self.nvml = None

    def used(self):
        memory = Memory()
        answers = self.nvml is not None and self.nvml.nvmlDeviceGetMemoryInfo(self.device, ctypes.byref(memory)) == 0
        return memory.used if answers else None


def row_print(row, nbytes, threads, ns, held=-1):
    print("%s,%d,%d,%.2f,%d" % (row, nbytes, threads, ns, held), flush=True)


def row_failed(row, nbytes, threads, error):
    print("%s,%d,%d,failed,%s" % (row, nbytes, threads, " ".join(str(error).split())[:200]), flush=True)


def mixed_bytes(step):
    mask = (1 << 64) - 1
    x = (step + 1) * 0x9E3779B97F4A7C15 & mask
    x = (x ^ (x >> 29)) * 0xD1B54A32D192ED03 & mask
    return int(256 * 2 ** ((x >> 40) / (1 << 24) * 16))


class Bench:
    def __init__(self, ms):
        self.pool, self.batch_ns, self.card, self.held = cupy.cuda.MemoryPool(), ms * 1e6, Card(), -1
        self.stream, self.other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
        self.done = [cupy.cuda.Event(disable_timing=True) for _ in range(AHEAD)]
        self.live, self.step, self.word = [None] * LIVE, 0, None

    def pairs(self, nbytes, count):
        malloc = self.pool.malloc
        begin = now()
        for _ in range(count):
            malloc(nbytes)  # freed at once: nobody keeps it
        return now() - begin

    def nothing(self, nbytes, count):
        begin = now()
        for _ in range(count):
            abs(nbytes)
        return now() - begin

    def busy(self, nbytes, count, same):
        total = 0
        stream = self.stream if same else self.other
        for _ in range(count):
            done = self.done[self.step % AHEAD]
            self.step += 1
            done.synchronize()
            if not same:
                with stream:
                    KERNEL((1,), (1,), (self.word.ptr, cupy.uint64(KERNEL_NS)))
            begin = now()
            block = self.pool.malloc(nbytes)
            between = again = now()
            if same:
                KERNEL((1,), (1,), (block.ptr, cupy.uint64(KERNEL_NS)))
                again = now()
            del block
            total += between - begin + now() - again
            done.record(stream)
        return total

    def rotate(self, nbytes, count):
        begin = now()
        for _ in range(count):
            slot = self.step % LIVE
            self.live[slot] = None
            self.live[slot] = self.pool.malloc(nbytes or mixed_bytes(self.step % 4096))
            self.step += 1
            if self.step % LIVE == 0:
                self.stream.synchronize()
        return now() - begin

    def row(self, name, run, nbytes, count=0, before=None):
        try:
            self.held, ns = -1, []
            if not count:
                run(nbytes, 2 * LIVE if before is not None else 3)
                count = int(max(3, min(20000, self.batch_ns / max(10, run(nbytes, 3) / 3))))
            for _ in range(BATCHES):
                ns.append(run(nbytes, count) / count)
                self.stream.synchronize()
                used = self.card.used() if before is not None else None
                self.held = self.held if used is None else max(self.held, used - before)
            row_print(name, nbytes, 1, sorted(ns)[BATCHES // 2], self.held)
        except Exception as error:  # whatever the library raises is the row's answer
            row_failed(name, nbytes, 1, error)
        self.live, self.step = [None] * LIVE, 0

    def row_threads(self, nbytes, count):
        ready, stop, pairs, errors = threading.Barrier(count + 1), threading.Event(), [0] * count, []

        def work(t):
            try:
                with cupy.cuda.Stream(non_blocking=True):
                    ready.wait()
                    while not stop.is_set():
                        self.pool.malloc(nbytes)
                        pairs[t] += 1
            except Exception as error:
                errors.append(error)

        workers = [threading.Thread(target=work, args=(t,)) for t in range(count)]
        for worker in workers:
            worker.start()
        ready.wait(timeout=20)
        begin = now()
        time.sleep(THREAD_BATCHES * self.batch_ns / 1e9)
        stop.set()
        for worker in workers:
            worker.join()
        if errors:
            row_failed("threads", nbytes, count, errors[0])
        else:
            row_print("threads", nbytes, count, (now() - begin) / max(1, sum(pairs)))


def main():
    what, bench = sys.argv[1], Bench(float(sys.argv[2]))
    print("version,CuPy " + cupy.__version__)
    with bench.stream:
        if what == "pairs":
            for power in range(8, 31, 2):
                bench.row("pair", bench.pairs, 1 << power)
            neighbour = bench.pool.malloc(256)
            for power in range(8, 21, 2):
                bench.row("beside", bench.pairs, 1 << power)
            del neighbour
            bench.row("interpreter", bench.nothing, 0)
        elif what == "busy":
            bench.word = bench.pool.malloc(4)
            for nbytes in (4096, MIB, 64 * MIB):
                bench.row("busy same", lambda n, count: bench.busy(n, count, True), nbytes, BUSY_PAIRS)
                bench.row("busy other", lambda n, count: bench.busy(n, count, False), nbytes, BUSY_PAIRS)
        elif what == "threads":
            for nbytes in (4096, MIB):
                for count in (1, 4, 16):
                    bench.row_threads(nbytes, count)
        else:
            bench.stream.synchronize()
            bench.row("rotate", bench.rotate, int(what.split()[1]), before=bench.card.used() or 0)


main()
