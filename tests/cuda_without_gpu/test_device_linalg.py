"""Test the host side of linear algebra on a GPU without a GPU: `fake_cupy` replaces CuPy.

The tests check where arrays go, which calls wait, how stacks are cut into launches, and the arithmetic of the scan of
the entries. The same functions run on a device in `test_gpu_linalg`.
"""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import fake_cupy
import numpy as np
import pytest
from cuda_on_host import HostKernels, needs_compiler
from tiers import full

import semiring as sr
from semiring.arrays import device as memory
from semiring.arrays.entries import check_entries
from semiring.errors import DeviceError, DivergenceWarning, DomainError, DTypeError, SuspiciousWeightsWarning
from semiring.kernels.cuda.closing import modules
from semiring.kernels.cuda.entries import entry_scan as device_look
from semiring.kernels.cuda.entries.entry_scan import MemoryOrder
from semiring.linalg.dispatch import overlaps

INF = np.inf


@pytest.fixture
def device(monkeypatch):
    """Return the module and the backend that stand in for those of a GPU."""
    return fake_cupy.install(monkeypatch)


@pytest.fixture
def cp(device):
    return device[0]


def entries(rng, dtype, shape, *, low=-9):
    values = rng.integers(low, 10, shape).astype(dtype)
    values[rng.random(shape) < 0.25] = sr.min_plus.zero_for(dtype)
    return values


def assert_same(actual, expected):
    assert isinstance(actual, fake_cupy.Array)
    assert (actual.dtype, actual.shape) == (np.asarray(expected).dtype, np.shape(expected))
    np.testing.assert_array_equal(actual.inner, expected)


# ------------------------------------------------------------------------------------------------- the look


def test_a_layout_covers_every_element_once(rng):
    base = np.arange(7 * 6 * 5 * 4, dtype=np.int32).reshape(7, 6, 5, 4)
    views = [
        *(base, base.T, base[::-1, ::2, ::-1], base[:, 1:, :, ::3], base[2], base[2, 3, 1, :1], base[:0]),
        *(base.swapaxes(1, 2), base[3, 2, 1, :1], base[:, None, 0, 0, 0], np.asfortranarray(base)[1:-1]),
    ]
    for view in map(np.asarray, views):
        layout = MemoryOrder.of(view.ctypes.data, view.shape, view.strides, 4)
        origin = view.base if view.base is not None else view
        offsets = (layout.address - origin.ctypes.data) // 4 + sum(
            np.arange(size).reshape((-1,) + (1,) * (len(layout.sizes) - 1 - i)) * stride
            for i, (size, stride) in enumerate(zip(layout.sizes, layout.strides, strict=True))
        )
        if view.size:
            flat = np.lib.stride_tricks.as_strided(origin, (origin.size,), (4,))
            assert sorted(np.ravel(flat[offsets])) == sorted(view.ravel())
    assert MemoryOrder.of(64, (8, 8), (64, 8), 8).sizes == (64,)
    assert MemoryOrder.of(64, (8, 8), (0, 8), 8).sizes == (8,), "a repeated row is read once"
    assert MemoryOrder.of(64, (8,), (6,), 4) is None


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16", "int32", "int64", "uint8"])
def test_the_look_finds_what_the_cpu_finds(dtype, cp, rng):
    for name in ("min_plus", "max_plus", "max_times", "max_min"):
        semiring = sr.CATALOGUE[name]
        if not semiring.supports(dtype):
            continue
        for shape, low in itertools.product([(1,), (7,), (3, 5), (2, 3, 4, 5), (129, 5)], (-3, 0)):
            values = rng.integers(max(low, 0) if name == "max_times" or dtype == "uint8" else low, 10, shape)
            values = values.astype(dtype)
            values[rng.random(shape) < 0.3] = semiring.zero_for(dtype)
            for view in (values, values.T, values[::-1], values[..., 1:]):
                if view.size:
                    host, there = check_entries(view, semiring), check_entries(fake_cupy.Array(view), semiring)
                    assert there[2:] == host[2:]
                    assert host.low is None or there.low == host.low
                    assert host.high is None or there.high == host.high
    only_zero = np.full(3, sr.min_plus.zero_for("int32"), np.int32)
    assert check_entries(fake_cupy.Array(only_zero), sr.min_plus) == check_entries(only_zero, sr.min_plus)


_ON_HOST = """
struct uint4 { unsigned x, y, z, w; };
template <class T> T __shfl_xor_sync(unsigned, T x, int lane) {
    static unsigned long long lanes[1024];
    lanes[threadIdx.x] = x;
    __syncthreads();
    const T y = lanes[threadIdx.x ^ lane];
    __syncthreads();
    return y;
}
static void atomicOr(unsigned long long* to, unsigned long long x) { *to |= x; }
static void atomicMax(unsigned long long* to, unsigned long long x) { *to = *to > x ? *to : x; }
"""


@pytest.fixture(scope="module")
def look_on_host():
    """Return the kernels of scan.cu, compiled for the host."""
    text = Path(device_look.__file__).with_name("scan.cu").read_text("utf-8")
    text, _, macro = text.partition("#define SCAN(bits)")
    body = macro.partition("\n\n")[0].replace("\\\n", "\n")
    expanded = "".join(body.replace("##bits", str(bits)) for bits in (8, 16, 32, 64))
    kernels = HostKernels(_ON_HOST + text + expanded)

    def look(layout, bits, grid, block, *arguments):
        sizes = (*grid, 1, 1), (*block, 1, 1)
        kernels.launch(f"scan_{layout}_{bits}", *sizes, [np.int64(argument) for argument in arguments])

    return look


@pytest.mark.full
@needs_compiler
@pytest.mark.parametrize(
    "dtype", full(lambda dtype: dtype in ("float32", "uint8"), ["float16", "float32", "int64", "uint8"])
)
def test_the_kernels_of_the_look(dtype, look_on_host, cp, rng, monkeypatch):
    """The kernels of scan.cu, run on the host in every layout and with every flag, agree with the scan of the CPU."""
    monkeypatch.setattr(fake_cupy, "look", look_on_host)
    semiring = sr.Semiring("R", "max(x, y)", "min(x, y)", zero="-inf", one="inf", domain="[-2, 7)")
    semirings = [s for s in (sr.min_plus, sr.max_plus, sr.max_min, semiring) if s.supports(dtype)]
    for shape in [(1,), (2100,), (9, 70), (3, 2, 3, 5)]:
        values = rng.integers(0 if dtype == "uint8" else -3, 8, shape).astype(dtype)
        for chosen in semirings:
            held = np.where(rng.random(shape) < 0.2, chosen.zero_for(dtype), values).astype(dtype)
            for view in (held, held.T, held[::-1], held[..., 1:], held[..., ::2], held[..., : shape[-1] // 2]):
                if view.size:
                    expected = complaint(view, chosen)
                    assert complaint(fake_cupy.Array(view), chosen) == expected
                    if expected is None:
                        host, there = check_entries(view, chosen), check_entries(fake_cupy.Array(view), chosen)
                        assert there[2:] == host[2:]
                        assert host.low is None or there.low == host.low
            if np.dtype(dtype).kind == "f":
                held[(0,) * held.ndim] = -np.nan
                assert "is nan" in complaint(fake_cupy.Array(held), chosen)
        for view in (np.abs(values), values.T, np.abs(values)[..., ::2]):
            host, there = check_entries(view, sr.max_min), check_entries(fake_cupy.Array(view), sr.max_min)
            assert there.nonnegative == host.nonnegative
            assert (dtype == "uint8" and there.low is None) or (there.low, there.high) == (view.min(), view.max())


DOMAINS = ["[0, inf)", "(0, 1)", "(0, 1]", "[-1.5, 2.25)", "(-inf, 0)", "(-inf, 0]", "[1, 1e30]"]


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
def test_domains_end_where_the_cpu_ends_them(domain, dtype, cp):
    semiring = sr.Semiring("R", "max(x, y)", "min(x, y)", zero="-inf", one="inf", domain=domain)
    numbers = [-2, -1, 0, 1, 2, 3]
    if dtype.startswith("f"):
        tiny = np.finfo(dtype).smallest_subnormal
        numbers += [-1.5, -0.0, -tiny, tiny, 0.1, 0.5, 2.25, np.nextafter(np.dtype(dtype).type(2.25), 0), INF]
    for number in numbers if dtype != "uint8" else numbers[2:]:
        array = np.array([number]).astype(dtype)
        assert complaint(fake_cupy.Array(array), semiring) == complaint(array, semiring)


def complaint(array, semiring):
    try:
        check_entries(array, semiring)
    except DomainError as error:
        return str(error)
    return None


def test_what_no_kernel_can_read_is_refused(cp):
    memory = np.zeros(400, np.uint8)
    memory = memory[-memory.ctypes.data % 8 :][:200]
    with pytest.raises(DeviceError, match="B has elements at addresses that 8, their size in bytes, does not divide"):
        sr.matmul(cp.zeros((3, 3)), fake_cupy.Array(memory[1:73].view(np.float64).reshape(3, 3)))
    assert_same(
        sr.matmul(fake_cupy.Array(memory[8:80].view(np.float64).reshape(3, 3)), cp.zeros((3, 3))), np.zeros((3, 3))
    )


# ------------------------------------------------------------------------------------------------- entry by entry


@pytest.mark.full
@needs_compiler
@pytest.mark.parametrize(
    ("name", "dtype"),
    full(lambda name, _: name != "boolean", [("min_plus", "float32"), ("max_plus", "int16"), ("boolean", "bool")]),
)
def test_the_kernels_of_entrywise_operations(name, dtype, rng):
    """The kernels of `apply_entrywise`, run on the host, absorb 0̄ and otherwise agree with the CPU backend."""
    semiring = sr.CATALOGUE[name]
    values = rng.integers(-5, 6, 40).astype(dtype)
    values[::7] = semiring.zero_for(dtype)
    if dtype == "float32":
        values[::9] = -semiring.zero_for(dtype)  # ∞ + -∞ is 0̄ where one of them is
    x, y = (np.ascontiguousarray(part).ravel() for part in np.meshgrid(values, values))
    element = {"float32": "float", "int16": "short", "bool": "unsigned char"}[dtype]
    for which, operation in (("add", semiring.add), ("mul", semiring.mul)):
        header, statement = modules.entrywise_source(semiring, which, np.dtype(dtype))
        body = f"const {element} x = a[threadIdx.x], y = b[threadIdx.x]; {element} z; {statement}; c[threadIdx.x] = z;"
        parameters = f"const {element}* a, const {element}* b, {element}* c"
        text = f'{header}\nextern "C" __global__ void each({parameters}) {{{body}}}'
        z = np.zeros_like(x)
        kernels = HostKernels(text)
        for start in range(0, x.size, 400):
            part = slice(start, start + 400)
            kernels.launch("each", (1, 1, 1), (len(x[part]), 1, 1), [x[part], y[part], z[part]])
        np.testing.assert_array_equal(z, operation(x, y))


# ------------------------------------------------------------------------------------------------- what waits


def test_one_wait_a_call_and_none_without_a_check(cp, rng):
    A, x = (cp.asarray(entries(rng, "float32", shape)) for shape in ((5, 5), (5,)))
    whole, out = cp.asarray(entries(rng, "int32", (5, 5))), cp.zeros((5, 5), np.float32)
    calls = {
        "matmul": lambda **o: sr.matmul(A, A, **o),
        "integers": lambda **o: sr.matmul(whole, whole, **o),
        "out": lambda **o: sr.matmul(A, A.T, out=out, **o),
        "aliased": lambda **o: sr.matmul(out, A, out=out, **o),
        "batches": lambda **o: sr.matmul(A.reshape(5, 1, 5), A, **o),
        "witness": lambda **o: sr.matmul(A, A, **o, return_witness=True),
        "gemm": lambda **o: sr.blas.gemm(A, A, A, alpha=2, beta=3, **o),
        "gemm of integers": lambda **o: sr.blas.gemm(whole, whole, whole, alpha=2, beta=3, **o),
        "gemv": lambda **o: sr.blas.gemv(A, x, x, beta=1, **o),
        "ger": lambda **o: sr.blas.ger(x, x, A, **o),
        "dot": lambda **o: sr.blas.dot(x, x, **o),
        "power": lambda **o: sr.power(A, 5, **o),
        "add": lambda **o: sr.add(A, x, **o),
        "multiply": lambda **o: sr.multiply(A, 3, **o),
        "reduce": lambda **o: sr.reduce(A, axis=0, **o),
        "axpy": lambda **o: sr.blas.axpy(2, A, A, **o),
        "axpy of integers": lambda **o: sr.blas.axpy(0, whole[:1] * 0, whole, "max_plus", **o),
    }
    for name, call in calls.items():
        for check, waits in ((True, 1), (False, 0)):
            fake_cupy.Array.wait_count = 0
            call(check=check)
            assert fake_cupy.Array.wait_count == waits, (name, check)


def test_an_error_is_found_by_the_one_wait(cp):
    bad = np.array([[1.0, 2.0], [np.nan, 0.0]])
    for call in (lambda X: sr.matmul(X, X), lambda X: sr.add(X, X), lambda X: sr.blas.gemm(X, X, X, beta=1)):
        with pytest.raises(DomainError, match=r"A\[1, 0\] is nan"):
            call(cp.asarray(bad))


@pytest.mark.parametrize("call", [sr.matmul, sr.add, lambda A, B, R, **options: sr.power(A, 1, R, **options)])
def test_integers_are_truth_values_and_without_check_nothing_waits(cp, call):
    ones = np.array([[0, 1], [1, 1]])
    expected = call(ones.astype(bool), np.eye(2, dtype=bool), "boolean")
    for check in (True, False):
        fake_cupy.Array.wait_count = 0
        assert_same(call(cp.asarray(ones), cp.asarray(np.eye(2, dtype=np.int8)), "boolean", check=check), expected)
        assert (fake_cupy.Array.wait_count > 0) == check
    call(cp.asarray(3 * ones), cp.asarray(np.eye(2, dtype=np.int8)), "boolean", check=False)
    assert not fake_cupy.Array.wait_count
    with pytest.raises(DTypeError, match=r"A\[0, 1\] is 3, which bool does not hold"):
        call(cp.asarray(3 * ones), cp.asarray(np.eye(2, dtype=np.int8)), "boolean")


# ------------------------------------------------------------------------------------------------- stacks


STACKS = [
    *(((7,), (7,), 1), ((7,), (1,), 1), ((2, 3), (2, 3), 1), ((2, 1), (2, 3), 2), ((2, 1), (1, 3), 2)),
    *(((4, 2, 1), (4, 2, 3), 8), ((1, 5), (5,), 1), ((3, 1, 1), (3, 1, 1), 1), ((2, 3), (3,), 2)),
]


@pytest.mark.parametrize(("left", "right", "launches"), STACKS)
def test_stacks_are_few_launches(left, right, launches, device, rng):
    cp, backend = device
    A, B = entries(rng, "float32", (*left, 2, 3)), entries(rng, "float32", (*right, 3, 4))
    assert_same(sr.matmul(cp.asarray(A), cp.asarray(B), check=False), sr.matmul(A, B))
    assert backend.calls == launches


def test_a_stack_times_one_matrix_is_one_tall_product(device, rng):
    cp, backend = device
    A, B = entries(rng, "float32", (4, 3, 2, 3)), entries(rng, "float32", (3, 4))
    assert_same(sr.matmul(cp.asarray(A), cp.asarray(B)), sr.matmul(A, B))
    assert backend.calls == 1
    assert_same(sr.matmul(cp.asarray(A)[:, ::2], cp.asarray(B)), sr.matmul(A[:, ::2], B))


# ------------------------------------------------------------------------------------------------- where arrays live


def test_results_live_where_the_operands_do(cp, rng):
    A = entries(rng, "float32", (4, 4))
    for call in (
        lambda X, **o: sr.matmul(X, X, **o),
        lambda X, **o: sr.matmul(X, X, **o, return_witness=True)[1],
        lambda X, **o: sr.blas.gemm(X, X, X, alpha=1, beta=2, transpose=(True, False), **o),
        lambda X, **o: sr.power(X, 3, **o),
        lambda X, **o: sr.power(X, 0, **o),
        lambda X, **o: sr.blas.axpy(2, X, X, **o),
        lambda X, **o: sr.reduce(X, axis=1, **o),
        lambda X, **o: sr.reduce(-X, "log_plus", axis=1, **o),
        lambda X, **o: sr.reduce(X[:0], axis=0, **o),
        lambda X, **o: sr.reduce(X, axis=(), **o),
        lambda X, **o: sr.blas.dot(X[0], X[1], **o),
    ):
        expected = call(A)
        assert_same(call(cp.asarray(A)), expected)
        moved = call(A, device="cuda")
        assert type(moved) is type(expected)
        np.testing.assert_array_equal(moved, expected)
    out = np.zeros((4, 4))
    assert sr.matmul(A.tolist(), A.astype(float), out=out, device="cuda") is out
    np.testing.assert_array_equal(out, sr.matmul(A, A))


def test_what_does_not_live_together_is_refused(cp):
    A = np.zeros((2, 2))
    for call in (
        lambda: sr.matmul(cp.asarray(A), A),
        lambda: sr.add(A.tolist(), cp.asarray(A)),
        lambda: sr.matmul(A, A, out=cp.asarray(A)),
        lambda: sr.matmul(cp.asarray(A), cp.asarray(A), out=A),
    ):
        with pytest.raises(DeviceError, match=r"on a GPU.* in the memory of the host|in the memory of the host.* GPU"):
            call()
    with pytest.raises(DeviceError, match=r"alpha is .*on a GPU"):
        sr.blas.gemm(cp.asarray(A), cp.asarray(A), alpha=cp.asarray(1.0))


# ------------------------------------------------------------------------------------------------- packed bits


def packed_calls(pack, A, B, C):
    """Yield calls on packed matrices (40, 40), and on one that is not packed."""
    return {
        "matmul": lambda **o: sr.matmul(pack(A), pack(B), "boolean", **o),
        "half packed": lambda **o: sr.matmul(pack(A), B, "boolean", **o),
        "xor": lambda **o: sr.matmul(pack(A), pack(B), "xor_and", **o),
        "gemm": lambda **o: sr.blas.gemm(pack(A), pack(B), pack(C), "boolean", beta=1, transpose=(True, False), **o),
        "nothing": lambda **o: sr.blas.gemm(pack(A), pack(B), semiring="boolean", alpha=0, **o),
        "add": lambda **o: sr.add(pack(A), pack(B), "xor_and", **o),
        "multiply": lambda **o: sr.multiply(pack(A), B, "boolean", **o),
        "power": lambda **o: sr.power(pack(A), 3, "boolean", **o),
        "identity": lambda **o: sr.power(pack(A), 0, "boolean", **o),
        "witness": lambda **o: sr.matmul(pack(A), pack(B), "boolean", **o, return_witness=True)[0],
    }


@pytest.mark.parametrize("call", packed_calls(None, None, None, None))
def test_packed_bits(call, cp, rng):
    A, B, C = (rng.random((40, 40)) < 0.1 for _ in range(3))
    expected = packed_calls(sr.pack, A, B, C)[call]()
    found = packed_calls(sr.pack, *map(cp.asarray, (A, B, C)))[call]()
    assert found.on_device
    assert found.to_host() == expected
    moved = packed_calls(sr.pack, A, B, C)[call](device="cuda")
    assert not moved.on_device
    assert moved == expected


def test_a_matrix_of_bits_on_a_device(cp, rng):
    A = rng.random((37, 70)) < 0.4
    host, there = sr.pack(A), sr.pack(cp.asarray(A))
    assert there.on_device
    assert there == host.to_device()
    assert there.to_host() == host
    assert (there.count(), there[3, 40], there[36, 69]) == (host.count(), host[3, 40], host[36, 69])
    assert there.T.to_host() == host.T
    assert (~there).to_host() == ~host
    assert there[5:9, 32:].to_host() == host[5:9, 32:]
    assert sr.BitMatrix(there.words, there.shape) == there
    assert_same(there.unpack(), A)
    there[0, 0], host[0, 0] = True, True
    there[:, 32:64] = False
    assert there.count() < host.count()
    with pytest.raises(DeviceError, match="to_device"):
        there & host
    with pytest.raises(DeviceError, match="A on a GPU, B in the memory of the host"):
        sr.matmul(there, host.T, "boolean")
    with pytest.raises(TypeError, match="to_host"):
        np.asarray(there)
    out = sr.BitMatrix.zeros((37, 37))
    assert sr.matmul(host, host.T, "boolean", out=out, device="cuda") is out
    assert out == sr.matmul(host, host.T, "boolean")


def test_arrays_of_jax_live_until_what_reads_them_has_ended(monkeypatch):
    """JAX reuses the memory of an array without references, even if a stream of CuPy still reads it."""
    monkeypatch.setattr(memory, "_lent_arrays", deque())
    events = []

    def event(**_):
        events.append(SimpleNamespace(done=False))
        return events[-1]

    stream = SimpleNamespace(is_capturing=lambda: False, record=lambda event: event)
    arrays = [np.zeros(3) for _ in range(3)]
    alive = list(map(weakref.ref, arrays))
    for _ in range(2):
        memory._hold(stream, event, [arrays.pop(0)])
    assert all(reference() is not None for reference in alive)
    events[0].done = True
    memory._hold(stream, event, [arrays.pop(0)])
    assert [reference() is not None for reference in alive] == [False, True, True]
    monkeypatch.setattr(memory, "_lent_arrays", deque([(None, [])]))  # asked nothing during a capture
    memory._hold(SimpleNamespace(is_capturing=lambda: True), event, [np.zeros(1)])
    assert len(memory._lent_arrays) == 1


@pytest.mark.parametrize("device", ["cpu", "cuda:", "cuda:x", "gpu", 0])
def test_devices_have_names(device):
    with pytest.raises(ValueError, match=r"'cuda' is the current GPU.*without device="):
        sr.zeros(3, device=device)


def test_overlap_is_told_by_addresses(cp):
    A = cp.zeros((8, 8))
    assert overlaps(A[:5], A[4:])
    assert overlaps(A, A.T)
    assert not overlaps(A[::2], A[1::2])
    assert not overlaps(A[:, :3], A[:, 3:])
    assert not overlaps(A[:0], A)


def test_without_a_gpu_the_error_says_what_is_missing():
    with pytest.raises(DeviceError, match=r"pip install '\.\[cuda\]'|needs an NVIDIA GPU"):
        sr.matmul(np.eye(2), np.eye(2), device="cuda")


# ------------------------------------------------------------------------------------------------- suspicious weights


def test_a_closure_warns_of_the_zeros_of_another_convention(cp):
    """The entries were scanned before. If that scan found nothing, no entry is read again, nor without a check."""
    A = np.where(np.eye(70, k=1, dtype=bool) | np.eye(70, k=-2, dtype=bool), 2.0, 0)
    proper = np.where(A == 0, INF, A)
    waits = []
    for given, check in ((A, False), (proper, False), (proper, True), (A + 1, True)):
        before = fake_cupy.Array.wait_count
        sr.closure(cp.asarray(given), check=check)
        waits.append(fake_cupy.Array.wait_count - before)
    assert waits[:2] == [0, 0]
    assert waits[2] == waits[3] > 0
    before = fake_cupy.Array.wait_count
    with pytest.warns(SuspiciousWeightsWarning, match=r"are 0, none is ∞: .* np\.where\(A == 0, np\.inf, A\)"):
        sr.closure(cp.asarray(A))
    assert fake_cupy.Array.wait_count - before == waits[2] + 1
    for stack, semiring in ((np.stack([A, A]), "min_plus"), (np.stack([proper, proper]), "max_min")):
        with pytest.warns(SuspiciousWeightsWarning):
            sr.closure(cp.asarray(stack), semiring)
    with pytest.warns(SuspiciousWeightsWarning, match="np.iinfo"):
        sr.closure(cp.asarray(A.astype(np.int32)))


def test_a_sum_that_diverges_is_told_where_the_host_waits_anyway(cp):
    for given in ([[2.0]], [[[0.5]], [[2.0]]]):
        with pytest.warns(DivergenceWarning):
            sr.closure(cp.asarray(np.array(given)), "plus_times")
    before = fake_cupy.Array.wait_count
    sr.closure(cp.asarray(np.array([[2.0]])), "plus_times", check=False)
    assert fake_cupy.Array.wait_count == before
