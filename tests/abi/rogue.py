"""Kernels without NumPy: right ones, and those that misbehave in layer 1 from step 1 on."""

import os
import sys
import time

from inquest_kernel import DECLINED, kernel, serve


@kernel("add", what="element by element", flags="golden", raw=True)
def raw_add(a, b, y):
    n = a.shape[1]
    for r in range(a.shape[0]):
        rows = [t.data[r * t.stride[0] : r * t.stride[0] + n] for t in (a, b)]
        for i, (one, other) in enumerate(zip(*rows)):
            y.data[r * y.stride[0] + i] = one + other


def rogue(deed):
    @kernel("add", name=deed.__name__, flags="faulty", raw=True)
    def run(a, b, y, call):
        raw_add(a, b, y)
        return deed(call) if call.layer == 1 and call.step >= 1 else None

    return deed


@rogue
def raises(call):
    raise ValueError(f"no {call.kind}\nfor {call.op}")


@rogue
def dies(call):
    os.kill(os.getpid(), 9)


@rogue
def leaves(call):
    sys.exit(call.batch)


@rogue
def sleeps(call):
    time.sleep(1000)


@rogue
def eats(call):
    heap = [bytearray(1 << 20) for _ in range(1 << 12)]
    raise MemoryError(len(heap))


@rogue
def talks(call):
    print("a kernel says that it is", call.op, flush=True)
    return DECLINED


@kernel("add", flags="faulty", raw=True)
def asks(a, b, y, eps):
    raise AssertionError("never called")


@kernel("add", flags="faulty", raw=True)
def leaves_out(a, b, y):
    return None


serve()
