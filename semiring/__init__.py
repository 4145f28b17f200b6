"""Dense linear algebra over any semiring: products, closures and shortest paths at the speed of the machine."""

from semiring.algebra import Domain, Semiring
from semiring.catalogue import (
    ALIASES,
    CATALOGUE,
    as_semiring,
    boolean,
    log_plus,
    lukasiewicz,
    max_min,
    max_plus,
    max_times,
    min_max,
    min_plus,
    min_times,
    plus_times,
    xor_and,
)
from semiring.expressions import absolute, exp, expm1, floor, log, log1p, maximum, minimum, sqrt, where
