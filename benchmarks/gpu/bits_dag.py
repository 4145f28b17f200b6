import time, sys
import cupy, numpy as np
import semiring as sr
from benchmarks.gpu.bits import _edges, _joules, _searches
from semiring.arrays.bits import BitMatrix
n, rng = 1_000_000, np.random.default_rng(1)
tails, heads = np.sort(rng.integers(0, n, (2, 10 * n)), axis=0)
order, kept = rng.permutation(n), tails != heads
from_, to = order[tails[kept]], order[heads[kept]]
pool, words = cupy.get_default_memory_pool(), cupy.zeros((n, -(-n // 32)), np.uint32)
A = BitMatrix(words, (n, n))
_edges()(cupy.asarray(from_), cupy.asarray(to), words.shape[1], words)
cupy.cuda.Device().synchronize(); pool.free_all_blocks()
held, counter = pool.total_bytes(), _joules(); joules, start = counter(), time.perf_counter()
sr.closure(A, "boolean", out=A)
cupy.cuda.Device().synchronize()
taken, joules = time.perf_counter() - start, counter() - joules
print(f"DAG of 10^6, order hidden: {taken:.1f} s, {joules / 1e3:.1f} kJ, beside the matrix {100 * (pool.total_bytes() - held) / A.nbytes:.1f} %", flush=True)
reached, equal = _searches(from_, to, n), 0
for done, vertex in enumerate(rng.integers(0, n, 64).tolist(), 1):
    equal += np.array_equal(words[vertex].get().view(np.uint8)[: -(-n // 8)], reached(vertex))
    if done in (8, 64): print(f"rows equal to searches: {equal} of {done}", flush=True)
print("bits:", A.count())
