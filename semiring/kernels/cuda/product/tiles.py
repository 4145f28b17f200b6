"""Define the tile shapes of the GPU product with their measurements, and the predicate that validates them."""

from __future__ import annotations

from dataclasses import dataclass

from semiring.kernels.cuda.product.specification import WordFormat

_SHARED_MEMORY = 227 * 1024  # the bytes for one block on sm_90; several blocks of a multiprocessor share a little less
_WARP = 32


@dataclass(frozen=True)
class Tile:
    """The tile of a block: ``tile_m`` rows × ``tile_n`` words of C, for ``tile_k`` steps of k at a time.

    A thread computes ``thread_m`` × ``thread_n`` words. Shared memory holds ``stages`` tiles of each operand.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    thread_m: int
    thread_n: int
    stages: int
    min_blocks: int  # the blocks that a multiprocessor must hold, which bounds the registers of a thread
    is_rolled: bool = False  # whether the loop over the k of a tile stays a loop: for operations of many instructions

    @property
    def threads(self) -> int:
        return (self.tile_m // self.thread_m) * (self.tile_n // self.thread_n)

    def count(self, rows: int, columns: int) -> int:
        """Return the number of tiles of a C of ``rows`` × ``columns`` words."""
        return -(-rows // self.tile_m) * -(-columns // self.tile_n)

    def shared_bytes(self, word_bytes: int) -> int:
        """Return the shared memory of a block, including the padding of both operands."""
        padding = 16 // word_bytes
        return self.stages * self.tile_k * (self.tile_m + self.tile_n + 2 * padding) * word_bytes

    def is_valid(self, word_bytes: int) -> bool:
        """Return whether threads, copies and shared memory divide evenly. The kernel and the tests call this."""
        vector = 16 // word_bytes
        return (
            min(self.tile_m, self.tile_n, self.tile_k, self.thread_m, self.thread_n, self.min_blocks) >= 1
            and self.stages >= 2
            and self.thread_m % vector == 0
            and self.thread_n % vector == 0
            and self.tile_m % (8 * self.thread_m) == 0
            and self.tile_n % (4 * self.thread_n) == 0
            and self.threads % _WARP == 0
            and self.threads <= 1024
            and self.tile_k % 2 == 0
            and self._copies_evenly(self.tile_m, vector)
            and self._copies_evenly(self.tile_n, vector)
            and self._splats_evenly()
            and self.min_blocks * self.shared_bytes(word_bytes) <= _SHARED_MEMORY
        )

    def _copies_evenly(self, size: int, vector: int) -> bool:
        """Return whether the threads share a (size, tile_k) tile evenly, by vectors and by words along k."""
        return (
            size * self.tile_k % (vector * self.threads) == 0
            and self.threads % (size // vector) == 0
            and self.threads % self.tile_k == 0
        )

    def _splats_evenly(self) -> bool:
        """Return whether each thread widens some k of a single row of A, from a single word of 32 truth values."""
        return self.threads % self.tile_m == 0 and 32 % max(1, self.tile_m * self.tile_k // self.threads) == 0


# Measured on an H200, T pairs/s: at n = 8192, row-major operands, C ← C ⊕ A ⊗ B, random data, on 2026-11-20.
#   float32 min-plus by the 3-input minimum: 64×128, three blocks a multiprocessor, 16.0, two 14.9; 128×128 14.9.
#   float32 min-plus by FMNMX: 13.9 with three blocks, 12.9 with two; 128×256 with 8×16 a thread 13.2. max-times alike.
#   int32 min-plus: 15.2 with two blocks and with three; 128×128 14.4. A tile_k of 32 costs 2 to 8 % everywhere.
#   packed int16: 64×256 with 8×16 a thread, 29.2 with A read by 16 bytes (24.9 by elements); 128×256 23.1, 64×128 22.7.
#   packed half: 64×128 28.7 with A read by 16 bytes (22.7 by elements); 64×256 21.7. Łukasiewicz 9.6.
#   packed bits, n = 32768: 64×256 410 to 444, 128×256 432, 128×128 384.
#   float64 min-plus, n = 4096: _WIDE 4.9, max-min 3.5, int64 3.1; 8×4 a thread 3.1 to 4.4, 8×8 3.3.
#   float32 min-plus with runs recorded 10.9, with witnesses 10.7.
# Smaller products on 2026-11-21, float32 min-plus by the 3-input minimum (_LARGE 15.2 at n = 8192):
#   n = 2048 and 1024: _SMALL 14.1 and 13.0, _LARGE 13.9 and 11.2, _NARROW 14.0 and 11.3; blocks of 64 threads 4 to 6.
#   n = 512: _SMALL in four parts of k 7.7, in eight 7.2, whole 3.1. m = 64, n = k = 8192: _SMALL in four parts 14.2.
#   10,000 times 64×64×64: _NARROW 9.3, _TINY 9.5, blocks of 64 threads 6.2 to 7.8, _LARGE 6.0; tile_k 32 8.9.
#   100,000 times 32×32×32: _MINI 5.4, _TINY 4.8. m = n = 8192, k = 64: _LARGE 10.3, tile_k 32 9.6, _SMALL 9.2.
_LARGE = Tile(64, 128, 16, 8, 8, 4, 3)
_LONG = Tile(64, 128, 8, 8, 8, 4, 2)  # three and more instructions a pair: with tile_k 16 the loop exceeds its cache
_PACKED = Tile(64, 256, 16, 8, 16, 4, 2)
_SMALL = Tile(64, 128, 16, 8, 4, 4, 2)  # twice the warps for the same C, if there are few tiles
_NARROW = Tile(64, 64, 16, 8, 4, 4, 4)
_TINY = Tile(32, 64, 16, 4, 8, 4, 8)
_MINI = Tile(32, 32, 16, 4, 4, 3, 16)
_WIDE = Tile(64, 64, 16, 4, 4, 4, 2)  # 8-byte words
_HEAVY = Tile(
    32, 32, 16, 4, 4, 3, 2, is_rolled=True
)  # many instructions a pair: unrolled, log_plus compiles for minutes
_RECORDING = Tile(64, 64, 16, 8, 4, 4, 3)  # three registers an entry of C: the accumulator, its old value, the mark

_SIMPLE = 6  # the nodes of two operations on two variables each
HEAVY = 12  # from this number of nodes of ⊕ and ⊗ together on, they count as heavy

#: The assumed number of multiprocessors: a constant, so that results depend on the sizes alone.
_MULTIPROCESSORS = 132
#: The numbers of tiles from which on _LARGE and _PACKED are faster than _SMALL, because their gain exceeds the cost of
#: the last wave. For words of one element and few instructions a pair, four tiles a multiprocessor suffice: m = 3072, n
#: = 4096, k = 512 (1536 tiles) reaches 14.2 against 13.6, and m = 512, n = 8192 (512 tiles) 13.6 against 13.3.
_MANY_LARGE, _MANY_OTHERS, _MANY_PACKED = 528, 1584, 512
#: The assumed part of C that a multiprocessor computes at a time: in bytes, and in words for heavy operations.
_HELD_BYTES, _HELD_HEAVY = 1 << 16, 1 << 11
#: The least k of a part, and the number of which parts are multiples, so that words of 32 truth values stay whole.
_PART, _PART_STEP = 128, 32


def tile_for(
    words: WordFormat, nodes: int, rows: int, columns: int, *, matrices: int = 1, record: bool = False
) -> Tile:
    """Return the tile for a product of ``matrices`` results C of ``rows`` × ``columns`` words.

    ``nodes`` is the number of nodes of ⊕ and ⊗ together. ``record``: whether the kernel records runs.
    """
    if nodes >= HEAVY:
        return _HEAVY
    if words.word_bytes == 8:
        return _WIDE
    if record:
        return _RECORDING
    if columns <= 64:
        return _NARROW if rows > 32 else _TINY if columns > 32 else _MINI
    integral = words.lanes > 1 and not (words.lanes == 2 and words.is_floating)
    if integral and _PACKED.count(rows, columns) * matrices >= _MANY_PACKED:
        return _PACKED
    many = _MANY_LARGE if words.lanes == 1 and nodes <= _SIMPLE else _MANY_OTHERS
    if _LARGE.count(rows, columns) * matrices < many:
        return _SMALL
    return _LONG if nodes > _SIMPLE else _LARGE


def parts_for(words: WordFormat, nodes: int, rows: int, columns: int, inner: int) -> tuple[int, int]:
    """Return the number of parts of k that keep the GPU busy if C is small, and the size of each part but the last.

    The parts decide the order of sums. So they depend on the problem alone, and on no number of a tile.

    Two parts are slower than one, because a second kernel folds them (n = 1024: 12.4 against 13.0 T pairs/s).
    """
    least = 64 if words.word_bytes == 8 else 32
    height = least if rows <= 32 and columns <= 64 else 64
    width = 128 if columns > 64 else max(height, least if columns <= 32 else 64)
    entries = -(-rows // height) * height * -(-columns // width) * width
    capacity = _HELD_HEAVY if nodes >= HEAVY else _HELD_BYTES // words.word_bytes
    parts = min(_MULTIPROCESSORS * capacity // entries, inner // _PART)
    if parts < 3:
        return 1, inner
    part = -(-inner // (parts * _PART_STEP)) * _PART_STEP
    return -(-inner // part), part
