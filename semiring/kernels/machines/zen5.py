"""Zen 5: AVX-512, 48 KB first-level and 1 MB second-level data cache a core. Derived from Zen 4, not measured.

Zen 5 of a server issues twice as many 512-bit operations a cycle as Zen 4: two pairs of min-plus in float32. From these
counts follows:

- Tiles: 32 registers of 64 bytes, as on Zen 4. A tile of 6 × 4 takes 10 loads in the 12 cycles of its 24 pairs. The
  processor loads two vectors a cycle, and 24 independent accumulators cover every latency. The only tile that fits and
  loads less for each pair is 5 × 5, by 4 %.
- ``depth``, ``packed``: the second-level cache is as large as on Zen 4.
- ``task_pairs``, ``parallel_pairs``: a product takes half the time there, so the sizes from which threads pay may be
  twice as large. They are those of Zen 4. `semiring tune` compares sizes up to twice as large. On an EPYC of two cores
  it found no number that was clearly faster than that of Zen 4.

The unit that intersects vectors, together with AVX-VNNI, identifies Zen 5 in virtual machines that report another name.
"""

from semiring.kernels.machines import zen4

NAME, MEASURED = "Zen 5", ""
CPUS = ("znver5",)
FEATURES = ("avx512f", "avx512vp2intersect", "avxvnni")

SPEED = zen4.SPEED
