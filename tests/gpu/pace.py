"""Runs a program's steps, and prints the time of one on stderr: "ms_per_step MS".

With --paced among the arguments, after the steps that warm up, as many at a time as a line on stdin says, "paced MS" (for
one step) after each such part, until stdin ends. tests/gpu/steps lets several processes take turns by that, so that
what varies from minute to minute meets all of them alike.
"""
import sys
import time


def arguments():
    """Those of the command line, without --paced."""
    return [text for text in sys.argv[1:] if text != "--paced"]


def run(step, count, warm, synchronize):
    """step(i) for i from 0 on: `count` steps of which `warm` are not timed, or as stdin wants it."""

    def timed(first, steps):
        synchronize()
        begin = time.perf_counter()
        for i in range(first, first + steps):
            step(i)
        synchronize()
        return (time.perf_counter() - begin) * 1e3 / max(1, steps)

    timed(0, warm)
    if "--paced" not in sys.argv:
        print("ms_per_step %.3f" % timed(warm, count - warm), file=sys.stderr)
        return
    print("paced 0", file=sys.stderr, flush=True)
    at = warm
    for line in sys.stdin:
        print("paced %.4f" % timed(at, int(line)), file=sys.stderr, flush=True)
        at += int(line)
