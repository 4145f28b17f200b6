"""Variants of the closure of bits: time lines and totals, with equal bits."""
import sys, time
from contextlib import contextmanager
from dataclasses import replace
import cupy, numpy as np
import semiring as sr
from benchmarks.common import device_milliseconds
from benchmarks.gpu.bits import _edges
from semiring.arrays.bits import BitMatrix
from semiring.kernels.cuda import CudaBackend, streams
from semiring.kernels.cuda.closing import squares
from semiring.kernels.cuda.product import bit_products
from semiring.kernels.machines import h200
from semiring.algorithms import blocked_floyd_warshall as bfw
from semiring.algorithms.blocked_floyd_warshall import Elimination

NEVER = 1 << 30
edges = _edges()
kept_prepare, kept_bits = CudaBackend.prepare_rows, h200._BITS

def setting(share, early, strip, graph, base=False):
    streams._recordings.clear()
    CudaBackend.prepare_rows = kept_prepare if share else (lambda self, plan, B, before=None: None)
    bit_products._EARLY = early
    h200._BITS = replace(kept_bits, strip=strip, graph=kept_bits.graph if graph else 0)

def matrix(n):
    random = cupy.random.RandomState(n)
    tails, heads = random.randint(0, n, (2, int(1.2 * n)))
    words = cupy.zeros((n, -(-n // 32)), np.uint32)
    return tails, heads, words, BitMatrix(words, (n, n))

def timed(n, m, repeats):
    tails, heads, words, A = m
    def call():
        words[...] = 0
        edges(tails, heads, words.shape[1], words)
        sr.closure(A, "boolean", out=A, structure=False)
    call(); call()
    times = sorted(device_milliseconds(call, 20.0) for _ in range(repeats))
    return times, words

def squares_alone():
    """A chain of 12 squares of 4096: of a closed block (one real, 11 that do nothing), of a path, and one alone."""
    n = 4096
    words = cupy.zeros((n, n // 32), np.uint32)
    random = cupy.random.RandomState(1)
    for early in (False, True):
        bit_products._EARLY = early
        for name, degree in (("closed", None), ("0.3 edges", 0.3), ("0.6 edges", 0.6), ("1.2 edges", 1.2)):
            if degree is None: src = cupy.full_like(words, 0xFFFFFFFF)
            else:
                t, h = random.randint(0, n, (2, int(degree * n))); src = cupy.zeros_like(words); edges(t, h, n // 32, src)
            best, count = [], None
            for rounds in (1, 2, 4, 12):
                def call():
                    changes = cupy.empty(rounds + 1, np.uint32)
                    squares._set_diagonal()(np.int64(n // 32), rounds + 1, cupy.ndarray((1,), np.uint32, words.data), changes, size=n)
                    bit_products.square(words, changes)
                    return changes
                def one():
                    words[...] = src; return device_milliseconds(call, 5.0)
                one(); best.append(sorted(one() for _ in range(7))[3] * 1e3)
            words[...] = src; found = call().get()
            print(f"squares early={early:d} {name:10}: 1, 2, 4, 12 rounds enqueued: " + ", ".join(f"{x:.1f}" for x in best) + f" us; rounds that worked {int(found[:-1].sum())}", flush=True)

def timeline(n, share, early, strip):
    """Events around each part of each task, in its lane."""
    setting(share, early, strip, False)
    tails, heads, words, A = m = matrix(n)
    noted = []
    originals = {}
    def wrap(owner, name, label):
        f = originals[owner, name] = getattr(owner, name)
        def g(self, *args, **kw):
            a, b = cupy.cuda.Event(), cupy.cuda.Event()
            a.record(); out = f(self, *args, **kw); b.record()
            noted.append((label(args), a, b)); return out
        setattr(owner, name, g)
    block = lambda r: f"{r[0] // 4096}" if r[1] > r[0] else "-"
    wrap(Elimination, "close", lambda a: f"close {block(a[1])}")
    wrap(Elimination, "panels_of", lambda a: f"panels {block(a[1])}")
    wrap(Elimination, "prepare_rows", lambda a: f"prepare {block(a[1])}")
    wrap(Elimination, "eliminate", lambda a: f"K {block(a[1])} rows {a[2][0] // 4096}..{-(-a[2][1] // 4096)}")
    try:
        for _ in range(3):
            noted.clear(); words[...] = 0; edges(tails, heads, words.shape[1], words)
            start = cupy.cuda.Event()
            def call():
                start.record(); sr.closure(A, "boolean", out=A, structure=False)
            total = device_milliseconds(call, 40.0)
    finally:
        for (owner, name), f in originals.items(): setattr(owner, name, f)
    cupy.cuda.Device().synchronize()
    at = lambda e: cupy.cuda.get_elapsed_time(start, e) * 1e3
    print(f"time line n={n} share={share:d} early={early:d} strip={strip}: {total:.3f} ms")
    rows = sorted((at(a), at(b), label) for label, a, b in noted)
    rows = [r for r in rows if r[1] - r[0] > 4]
    k = len(rows)
    shown = rows if k <= 90 else rows[:40] + rows[k // 2: k // 2 + 30]
    for a, b, label in shown: print(f"  {a:8.0f} .. {b:8.0f} us {b - a:7.0f}  {label}")
    sys.stdout.flush()

def main():
    squares_alone()
    ms = {n: matrix(n) for n in (32768, 65536)}
    first = {}
    def variant(n, repeats, **kw):
        setting(**kw)
        times, words = timed(n, ms[n], repeats)
        if n not in first: first[n] = words.copy()
        same = bool((words == first[n]).all())
        print(f"n={n} {kw} best {times[0]:.3f} median {times[len(times) // 2]:.3f} ms, bits {'equal' if same else 'DIFFER'}", flush=True)
    for turn in range(2):  # twice over, so that heat shows
        for n, repeats in ((32768, 9), (65536, 5)):
            for graph in ((True, False) if n == 32768 else (False,)):
                for share, early, strip in ((False, False, NEVER), (False, True, NEVER), (True, False, NEVER), (True, True, NEVER),
                                            (True, True, 8192), (True, True, 4096), (True, True, 2048)):
                    variant(n, repeats, share=share, early=early, strip=strip, graph=graph)
    timeline(32768, False, False, NEVER)
    timeline(32768, True, True, NEVER)
    timeline(32768, True, True, 4096)
    ms[131072] = matrix(131072)
    for share, early in ((False, False), (True, True), (True, True), (False, False)):
        variant(131072, 3, share=share, early=early, strip=NEVER, graph=False)

main()
