"""Test errors of equal semirings with different names: objects shared by equal semirings do not name the first one."""

import numpy as np
import pytest

import semiring as sr
from semiring.errors import AlgebraError, DivergenceError


@pytest.mark.full
@pytest.mark.parametrize("name", ["first", "second"])
def test_errors_name_the_semiring_that_was_given(name):
    walks = sr.Semiring(
        name, "x + y", "x * y", 0, 1, star="where(x == 1, nan, 1 / (1 - x))", domain="(-inf, inf)", contract=True
    )
    for _ in range(2):
        with pytest.raises(DivergenceError, match=f"does not exist in {name}:"):
            sr.closure(np.diag([1.0, 0.5]), walks)
    mean = sr.Semiring(name, "max(x, y)", "(x + y) / 2", 0, 1, domain=(0, 1))
    with pytest.raises(AlgebraError, match=rf"^{name} is no semiring on .* See {name}\.check_axioms"):
        sr.closure(np.eye(2), mean)
    difference = sr.Semiring(name, "x - y", "x * y", 0, 1)
    with pytest.raises(AlgebraError, match=rf"^{name} is no semiring on .* See {name}\.check_axioms"):
        sr.matmul(np.eye(2), np.eye(2), difference)
