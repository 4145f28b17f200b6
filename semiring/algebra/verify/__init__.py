"""Verification of semirings, which proves, refutes or samples the laws and properties of a definition.

Each law is decided on the elements of the domain, over exact numbers, with 0̄ ⊗ x = 0̄ by definition:

- min, max, sums, products, quotients, comparisons: by case splits (`semiring.algebra.verify.case_splits`);
- the same under a logarithm, as in log-plus: with x = log u;
- bit operations: by truth tables, for every width at once;
- a definition that exists on bool alone, or mixes bits with comparisons: on all values of the small dtypes;
- any other definition: on samples and corner values, exactly or with sixty digits, which the report states.

Deviations that only the rounding of a dtype causes are reported beside the verdict, never as a failure.
"""

from semiring.algebra.verify.axioms import check_axioms, derive_property
from semiring.algebra.verify.report import AxiomReport, Counterexample, Rounding, Verdict
from semiring.algebra.verify.statements import AXIOMS, PROPERTIES, STAR_LAWS, Law

__all__ = [
    "AXIOMS",
    "PROPERTIES",
    "STAR_LAWS",
    "AxiomReport",
    "Counterexample",
    "Law",
    "Rounding",
    "Verdict",
    "check_axioms",
    "derive_property",
]
