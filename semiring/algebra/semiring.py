"""The class `Semiring`: a definition from which operations, properties and kernels are derived.

A semiring is a set with ⊕ (commutative, associative, neutral element 0̄) and ⊗ (associative, neutral element 1̄).
⊗ distributes over ⊕, and 0̄ ⊗ x = x ⊗ 0̄ = 0̄. The last law is enforced where ⊗ is undefined and where 0̄ is infinite, so
that it stands for no entry. A finite 0̄ is a number like any other: `Semiring.annihilates` says whether the law holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache, wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias

import numpy as np

from semiring.advice import advice, argument, option, quote, truth_values_advice
from semiring.algebra.domains import Domain
from semiring.algebra.expressions import Constant, Expression, parse, trace, typed_constant
from semiring.algebra.expressions.nan_conditions import nan_by_evaluation, nan_condition, replace_nan
from semiring.algebra.expressions.tree import as_operation, constant, is_floating
from semiring.algebra.operations import Operation, numpy_dtype
from semiring.arguments import as_dtype, as_numbers, require_flag
from semiring.errors import AlgebraError, DTypeError, ExpressionError, no_star
from semiring.namespaces import array_namespace

if TYPE_CHECKING:
    from semiring.algebra.verify import AxiomReport, Verdict

__all__ = ["DTYPES", "Domain", "Operation", "Semiring"]

#: The element types of the CPU backend, by name. float16 and bfloat16 are computed in float32 there.
DTYPES = ("float32", "float64", "int16", "int32", "int64", "uint8", "bool")

_LONGEST_NAME = 80  # characters of the name of a semiring, which messages and tables contain
_OUT_OF_RANGE = "can leave its range"

_REQUIRED_ARGUMENTS = ("name", "add", "mul", "zero", "one")
_EXAMPLE = "Semiring('safest', add='max(x, y)', mul='x * y', zero=0, one=1, domain=(0, 1))"
_P = ParamSpec("_P")

OperationLike: TypeAlias = Callable[..., Any] | str | Expression
_X, _Y = Expression("var", (), "x"), Expression("var", (), "y")
#: Operations whose result is 0 or NaN if an operand is 0, so that no proof is needed.
_ANNIHILATED_BY_0 = frozenset(Expression(op, (_X, _Y)) for op in ("mul", "and"))


def _explain_missing_arguments(init: Callable[_P, None]) -> Callable[_P, None]:
    """Wrap the initializer of `Semiring`: its `TypeError` names the missing arguments, and shows an example."""

    @wraps(init)
    def wrapper(*arguments: _P.args, **options: _P.kwargs) -> None:
        if options.keys() & {"plus", "times"}:
            raise TypeError(f"⊕ and ⊗ are add= and mul=, such as {_EXAMPLE}")
        missing = [name for name in _REQUIRED_ARGUMENTS[len(arguments) - 1 :] if name not in options]
        if missing:
            raise TypeError(
                f"Semiring misses {' and '.join(missing)}: the arguments are {', '.join(_REQUIRED_ARGUMENTS)}, "
                f"and the first is the name of the semiring, such as {_EXAMPLE}"
            )
        init(*arguments, **options)

    return wrapper


class Semiring:
    """A semiring, defined by its operations, its neutral elements and its domain.

    Parameters
    ----------
    name : str
        The name in `repr`, messages and the catalogue.
    add, mul : callable or str
        ⊕ and ⊗: a callable of two arguments, or text over ``x`` and ``y`` such as ``"max(0, x + y - 1)"``.
    zero, one : number or str
        The neutral elements: numbers (±inf is the extreme value of an integer dtype), or text without variables
        (``"~0"``: all bits set, in every dtype).
    star : callable, str or None
        a* = 1 ⊕ a ⊕ a² ⊕ … as a callable of one argument or text over ``x``, ``nan`` where it does not exist. Not
        needed where 1 ⊕ a = 1 on the whole domain: there a* = 1.
    domain : Domain, tuple, str or None
        The elements on which the laws hold: a pair ``(0, 1)`` or text such as ``"[0, inf)"``; by default every number.
    idempotent, selective, commutative, absorptive : bool or None
        Claims that x ⊕ x = x, that x ⊕ y is x or y, that x ⊗ y = y ⊗ x, and that 1 ⊕ x = 1. Without a claim the first
        access derives the property.
    contract : bool
        Whether ⊕ after ⊗ may be one fused multiply-add with one rounding. In the catalogue only plus_times allows it.
    dtypes : iterable of str, or None
        The dtypes on which the semiring is defined. The default is floats if the operations allow them, and integers
        and booleans if the operations are exact on them. Such operations are min, max, comparisons, bit operations, and
        the sums of min-plus and max-plus. An integer dtype in this list accepts arithmetic that wraps around.
    description : str
        A line of text about the semiring, for the attribute of this name. It does not affect equality.

    Raises
    ------
    ExpressionError
        If an operation, an element or the star cannot be traced or parsed.
    AlgebraError
        If a derivation refutes a claim, zero and one are swapped, or the domain is not valid.
    DTypeError
        If the operations and elements fit no dtype, or ``dtypes`` does not list names of dtypes.
    TypeError
        If a required argument is missing.

    Notes
    -----
    Semirings are equal if their definitions are equal, for any names. They can be hashed and pickled.

    Examples
    --------
    >>> import semiring as sr
    >>> R = sr.Semiring("reliability", add="max(x, y)", mul="x * y", zero=0, one=1, domain=(0, 1))
    >>> R.add(0.5, 0.25), R.mul(0.5, 0.25)
    (np.float64(0.5), np.float64(0.125))
    """

    @_explain_missing_arguments
    def __init__(
        self,
        name: str,
        add: OperationLike,
        mul: OperationLike,
        zero: Constant | str | Expression,
        one: Constant | str | Expression,
        star: OperationLike | None = None,
        domain: Domain | tuple[Constant, Constant] | str | None = None,
        *,
        idempotent: bool | None = None,
        selective: bool | None = None,
        commutative: bool | None = None,
        absorptive: bool | None = None,
        contract: bool = False,
        dtypes: Iterable[str] | None = None,
        description: str = "",
    ) -> None:
        if not isinstance(name, str) or not name.isprintable() or len(name) > _LONGEST_NAME:
            raise AlgebraError(
                f"the name of a semiring is a text of at most {_LONGEST_NAME} characters, not {quote(name)}"
            )
        require_flag(contract, "contract")
        self.name, self.description, self.contract = name, description, bool(contract)
        with _name_argument_in_errors("add"):
            self.add = Operation(_parse_operation(add, ("x", "y")), self)
        with _name_argument_in_errors("mul"):
            self.mul = Operation(_parse_operation(mul, ("x", "y")), self, annihilates=True)
        with _name_argument_in_errors("zero"):
            self.zero = _parse_element(zero)
        with _name_argument_in_errors("one"):
            self.one = _parse_element(one)
        with _name_argument_in_errors("star"):
            self._star = None if star is None else _parse_operation(star, ("x",), allow_nan=True)
        with _name_argument_in_errors("domain"):
            self.domain = Domain.of(domain)
        self._dtypes = None if dtypes is None else _sort_dtype_names(dtypes)
        claims = {
            "idempotent": idempotent,
            "selective": selective,
            "commutative": commutative,
            "absorptive": absorptive,
        }
        self._claims: dict[str, bool] = {}
        for key, claimed in claims.items():
            if claimed is not None:
                require_flag(claimed, key)
                self._claims[key] = bool(claimed)
        if all(self._unsupported_reason(np.dtype(name)) is not None for name in DTYPES):
            raise DTypeError(
                f"{self.name} is defined on no dtype: {argument('add')} {add} and {argument('mul')} {mul} with "
                f"{argument('zero')} {self.zero} and {argument('one')} {self.one} fit none of {', '.join(DTYPES)} "
                f"(on float64: {self._unsupported_reason(np.dtype('float64'))})"
            )
        self._check_neutral_elements()
        for key, claim in self._claims.items():
            if (key, claim) not in _TRUSTED_CLAIMS.get(self.definition, ()):
                self._verify_claim(key, claim)

    # ------------------------------------------------------------------------------------------------- definition

    @cached_property
    def definition(self) -> tuple[Any, ...]:
        """The attributes that decide equality, which are all except the name, the description and the claims."""
        star = self._star.text if self._star else None
        return (
            self.add.expression.text,
            self.mul.expression.text,
            self.zero.text,
            self.one.text,
            star,
            self.domain,
            self.contract,
            self._dtypes,
        )

    def __eq__(self, other: object) -> bool:
        return self.definition == other.definition if isinstance(other, Semiring) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # cached, because a small product looks up four values by its semiring
        return hash(self.definition)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (
            (self.name, self.add.expression, self.mul.expression, self.zero, self.one, self._star, self.domain),
            {"contract": self.contract, "dtypes": self._dtypes, "description": self.description},
            self._claims,
        )

    def __repr__(self) -> str:
        star = f", star={self._star.text!r}" if self._star else ""
        domain = "" if self.domain.everything else f", domain='{self.domain}'"
        contract = ", contract=True" if self.contract else ""
        dtypes = "" if self._dtypes is None else f", dtypes={self._dtypes}"
        return (
            f"Semiring({self.name!r}, add={self.add.expression.text!r}, mul={self.mul.expression.text!r}, "
            f"zero={_literal(self.zero)}, one={_literal(self.one)}{star}{domain}{contract}{dtypes})"
        )

    def _repr_html_(self) -> str:
        """Return the HTML table that a notebook shows: the definition and its dtypes."""
        from semiring.terminal import html_table

        star = "" if self._star is None else self._star.text
        rows = [
            ("⊕", self.add.expression.text),
            ("⊗", self.mul.expression.text),
            ("zero", self.zero),
            ("one", self.one),
        ]
        rows += [("star", star)] if star else []
        return html_table(
            f"Semiring {self.name}", ("", ""), [*rows, ("domain", self.domain), ("dtypes", ", ".join(self.dtypes))]
        )

    def on_domain(self, domain: Domain | tuple[Constant, Constant] | str | None) -> Semiring:
        """Return the semiring of the same operations and elements on another domain, without claims.

        Parameters
        ----------
        domain : Domain, tuple, str or None
            The new domain, as `Semiring` takes it.

        Returns
        -------
        Semiring
            The new semiring, with the same name.

        Raises
        ------
        AlgebraError
            If ``domain`` is not valid.
        DTypeError
            If no dtype remains.
        """
        return self._replace(domain=domain)

    def with_star(self, star: OperationLike | None) -> Semiring:
        """Return the semiring of the same operations, elements and domain with another star, without claims.

        Parameters
        ----------
        star : callable, str or None
            The new star, as `Semiring` takes it. None removes the star.

        Returns
        -------
        Semiring
            The new semiring, with the same name.

        Raises
        ------
        ExpressionError
            If ``star`` cannot be traced or parsed.
        """
        return self._replace(star=star)

    def _replace(self, **changes: Any) -> Semiring:
        """Return the semiring with some arguments of its initializer replaced, and without claims."""
        arguments: dict[str, Any] = {
            "add": self.add.expression,
            "mul": self.mul.expression,
            "zero": self.zero,
            "one": self.one,
            "star": self._star,
            "domain": self.domain,
            "contract": self.contract,
            "dtypes": self._dtypes,
            "description": self.description,
        }
        return Semiring(self.name, **(arguments | changes))

    def latex(self) -> str:
        """Return the definition as LaTeX.

        Returns
        -------
        str
            The formula, without dollar signs.
        """
        from semiring.algebra.notation import semiring_latex

        return semiring_latex(self)

    def _repr_latex_(self) -> str:
        return f"${self.latex()}$"

    # ----------------------------------------------------------------------------------------------------- dtypes

    @cached_property
    def dtypes(self) -> tuple[str, ...]:
        """The CPU dtypes on which the semiring is defined, by name."""
        return tuple(name for name in DTYPES if self._unsupported_reason(np.dtype(name)) is None)

    def supports(self, dtype: Any) -> bool:
        """Return whether the semiring is defined on a dtype.

        Parameters
        ----------
        dtype : dtype or str
            A dtype of NumPy, or its name.

        Returns
        -------
        bool
            True if `check_dtype` raises no error.
        """
        return self._unsupported_reason(as_dtype(dtype)) is None

    def check_dtype(self, dtype: Any) -> None:
        """Raise an error unless the semiring is defined on a dtype.

        Parameters
        ----------
        dtype : dtype or str
            A dtype of NumPy, or its name.

        Raises
        ------
        DTypeError
            If the semiring is not defined on ``dtype``, with the reason and the dtypes on which it is.
        """
        dtype = as_dtype(dtype)
        reason = self._unsupported_reason(dtype)
        if reason is not None:
            remedy = f"Use one of {', '.join(self.dtypes)}" + advice("", f" for {option('dtype')}")
            if self.dtypes == ("bool",):
                remedy = f"Use bool. {truth_values_advice()}"
            elif dtype.kind == "b":
                remedy += "; the semiring of truth values is 'boolean'"
            elif dtype.kind in "iu" and (wider := [name for name in self.dtypes if np.can_cast(dtype, name)]):
                nearest = min(wider, key=lambda name: (np.dtype(name).kind != "i", np.dtype(name).itemsize))
                remedy += advice(f", as by A.astype(np.{nearest})", f", such as {nearest}")
            if reason.endswith(_OUT_OF_RANGE):
                reason += advice(" (a semiring of your own accepts that where its dtypes= name it)", "")
            raise DTypeError(f"{self.name} is not defined on {dtype}: {reason}. {remedy}")

    def _unsupported_reason(self, dtype: np.dtype[Any]) -> str | None:
        return _unsupported_reason(self, dtype)

    def common_dtype(self, *operands: Any) -> np.dtype[Any]:
        """Return the common dtype of the operands, which is NumPy's promotion of the arrays.

        Without an array it is float64. If the semiring is not defined on float64, it is NumPy's dtype of the numbers,
        or else the first dtype of the semiring. Truth values alone are bool if the semiring is defined on bool.

        Parameters
        ----------
        *operands : array, list or scalar
            The operands of an operation.

        Returns
        -------
        numpy.dtype
            The common dtype. The semiring need not be defined on the common dtype of arrays.
        """
        typed = [operand for operand in operands if hasattr(operand, "dtype")]
        plain = [operand for operand in operands if not hasattr(operand, "dtype")]
        if typed:
            weak = [
                operand if isinstance(operand, bool | int | float) else as_numbers(operand, "an operand")
                for operand in plain
            ]
            return np.result_type(*typed, *weak)
        dtype = np.result_type(*(as_numbers(operand, "an operand") for operand in plain))
        if dtype.kind in "iu" or (dtype.kind == "b" and not self.supports(dtype)):
            return np.dtype(next(name for name in ("float64", dtype.name, *self.dtypes) if self.supports(name)))
        return dtype

    def zero_for(self, dtype: Any) -> Any:
        """Return the element 0̄ in a dtype.

        Parameters
        ----------
        dtype : dtype or str
            A dtype on which the semiring is defined.

        Returns
        -------
        NumPy scalar
            0̄ as a scalar of ``dtype``: for min_plus ∞ in a float dtype, and the largest value of an integer dtype.
        """
        return _element_for(self, "zero", dtype if isinstance(dtype, np.dtype) else as_dtype(dtype))

    def one_for(self, dtype: Any) -> Any:
        """Return the element 1̄ in a dtype.

        Parameters
        ----------
        dtype : dtype or str
            A dtype on which the semiring is defined.

        Returns
        -------
        NumPy scalar
            1̄ as a scalar of ``dtype``.
        """
        return _element_for(self, "one", dtype if isinstance(dtype, np.dtype) else as_dtype(dtype))

    # ------------------------------------------------------------------------------------------------- properties

    @cached_property
    def tropical(self) -> str | None:
        """``"min"`` or ``"max"`` where this is (min, +) or (max, +): their integers have a value for "no path"."""
        add, mul = self.add.expression, self.mul.expression
        if {*add.args} != {_X, _Y} or mul.op != "add" or {*mul.args} != {_X, _Y} or self.one.leaf != 0:
            return None
        return add.op if (add.op, self.zero.leaf) in (("min", math.inf), ("max", -math.inf)) else None

    @cached_property
    def idempotent(self) -> bool:
        """Whether x ⊕ x = x on the domain."""
        return self._has_property("idempotent")

    @cached_property
    def selective(self) -> bool:
        """Whether x ⊕ y is always one of x and y: then every entry of a product has a witness."""
        return self._has_property("selective")

    @cached_property
    def commutative(self) -> bool:
        """Whether x ⊗ y = y ⊗ x on the domain."""
        return self._has_property("commutative")

    @cached_property
    def absorptive(self) -> bool:
        """Whether 1 ⊕ x = 1 on the domain: then every star is 1 and every closure exists."""
        return self._has_property("absorptive")

    @cached_property
    def annihilates(self) -> bool:
        """Whether 0̄ ⊗ x = x ⊗ 0̄ = 0̄. If a finite zero fails this law, products compute ⊗ for entries that are zero."""
        return self.failed_annihilation is None

    @cached_property
    def failed_annihilation(self) -> Verdict | None:
        """The verdict that refutes 0̄ ⊗ x = x ⊗ 0̄ = 0̄ for a finite zero, or None: then products enforce the law."""
        if isinstance(self.zero.leaf, float) and math.isinf(self.zero.leaf):
            return None  # it stands for no entry, whatever ⊗ computes
        mul = self.mul.expression
        if mul in _ANNIHILATED_BY_0 and self.zero.leaf == 0:
            return None
        from semiring.algebra.verify.axioms import refute_annihilation

        return refute_annihilation(self)

    def _has_property(self, key: str) -> bool:
        if key in self._claims:
            return self._claims[key]
        from semiring.algebra.verify import derive_property

        return bool(derive_property(self, key))

    def _check_neutral_elements(self) -> None:
        """Raise `AlgebraError` if the zero is neutral for ⊗ and the one is neutral for ⊕, instead of the reverse."""
        dtype = np.dtype("float64" if self.supports("float64") else self.dtypes[-1])  # bool has too few values
        add, mul, zero, one = self.add.expression, self.mul.expression, self.zero_for(dtype), self.one_for(dtype)
        with np.errstate(all="ignore"):
            x = self.domain.samples.astype(dtype)
            sums, products = (
                [np.broadcast_to(tree.evaluate({"x": x, "y": np.full_like(x, y)}, dtype), x.shape) for y in (zero, one)]
                for tree in (add, mul)
            )
        if (sums[1] == x).all() and (products[0] == x).all() and not ((sums[0] == x).all() or (products[1] == x).all()):
            raise AlgebraError(
                f"zero and one of {self.name} are swapped: {self.zero} is not neutral for ⊕, {add.text}, but "
                f"{self.one} is, and {self.one} is not neutral for ⊗, {mul.text}, but {self.zero} is. "
                f"Give {option('zero', _number_or_text(self.one))}, {option('one', _number_or_text(self.zero))}"
            )

    def _verify_claim(self, key: str, claim: bool) -> None:
        from semiring.algebra.verify import derive_property

        verdict = derive_property(self, key)
        if bool(verdict) != claim:
            raise AlgebraError(f"{self.name} was claimed to be {'' if claim else 'not '}{key}, but {verdict}")

    @property
    def given_star(self) -> Expression | None:
        """The star of the definition, which is NaN where it does not exist, or None without a star."""
        return self._star

    @cached_property
    def star_expression(self) -> Expression | None:
        """The star as a tree over ``x``, which is 0̄ where it does not exist, or None without a star."""
        if self._star is not None:
            return replace_nan(self._star, self.zero)
        return self.one if self.absorptive else None

    @cached_property
    def divergence(self) -> Expression | None:
        """The truth over ``x`` that the star does not exist, or None if it exists everywhere or nowhere."""
        if self._star is None:
            return None
        truth = nan_by_evaluation(self._star, nan_condition(self._star), self.domain.samples)
        return truth if isinstance(truth, Expression) else None

    def star(self, x: Any) -> Any:
        """Return a* = 1 ⊕ a ⊕ a² ⊕ … entry by entry.

        Parameters
        ----------
        x : array, list or scalar
            The elements a, of any shape.

        Returns
        -------
        array or scalar
            The stars, of the shape and the dtype of ``x``. A star that does not exist is NaN, or 0̄ in an integer
            dtype.

        Raises
        ------
        AlgebraError
            If the semiring has no star.
        DTypeError
            If the semiring or its star is not defined on the dtype.
        """
        if self.star_expression is None:
            raise no_star(self.name)
        xp = array_namespace(x)
        values = np.asarray(x, self.common_dtype(x)) if xp is np else x
        floating = "float" in str(values.dtype)
        expression = self._star if self._star is not None and floating else self.star_expression
        expression.check_dtype(numpy_dtype(values.dtype))
        result = Operation(expression, self, ("x",))(values)
        return xp.where(xp.ones_like(values, dtype=bool), result, values)[()]  # a constant star has no shape of its own

    def check_axioms(self, dtype: Any = None, **options: Any) -> AxiomReport:
        """Prove or refute the laws on the domain.

        Parameters
        ----------
        dtype : dtype, str or None
            The dtype whose rounding is measured. The default is the widest float dtype of the semiring.
        **options : int, float or bool
            ``samples``, ``seed``, ``suggest`` and ``seconds`` of `semiring.algebra.verify.check_axioms`.

        Returns
        -------
        AxiomReport
            One verdict for each law. It prints as a table.

        Raises
        ------
        DTypeError
            If the semiring is not defined on ``dtype``.
        UnknownNameError
            If there is no such dtype.
        """
        from semiring.algebra.verify import check_axioms

        return check_axioms(self, dtype, **options)


#: The claims that are not verified again, by the definition of the semiring. The tests prove those of the catalogue.
_TRUSTED_CLAIMS: dict[tuple[Any, ...], frozenset[tuple[str, bool]]] = {}


def semiring_with_claims(*arguments: Any, claims: dict[str, bool], **options: Any) -> Semiring:
    """Return a semiring whose claims are not verified.

    The tests prove the claims of the catalogue, and the claims of a pickled semiring were verified before.
    """
    semiring = Semiring(*arguments, **options)
    _TRUSTED_CLAIMS[semiring.definition] = frozenset(claims.items())
    semiring._claims.update(claims)
    return semiring


def _rebuild(arguments: tuple[Any, ...], options: dict[str, Any], claims: dict[str, bool]) -> Semiring:
    return semiring_with_claims(*arguments, claims=claims, **options)


@contextmanager
def _name_argument_in_errors(key: str) -> Iterator[None]:
    """Prefix errors of the block with the name of an argument: ``add`` in Python, ``--add`` in the command."""
    try:
        yield
    except ExpressionError as error:
        raise ExpressionError(f"{argument(key)}: {error}") from error.__cause__
    except AlgebraError as error:
        raise AlgebraError(f"{argument(key)}: {error}") from error.__cause__


def _parse_operation(operation: OperationLike, variables: tuple[str, ...], *, allow_nan: bool = False) -> Expression:
    if isinstance(operation, Expression):
        expression = as_operation(operation, allow_nan)
    elif isinstance(operation, str):
        expression = parse(operation, variables, allow_nan=allow_nan)
    elif callable(operation):
        expression = trace(operation, variables, allow_nan=allow_nan)
    else:
        raise ExpressionError(
            f"an operation is a text such as 'max(x, y)', or a callable of {' and '.join(variables)}, not "
            f"{quote(operation)} of type {type(operation).__name__}"
        )
    if not expression.variables <= set(variables):
        raise ExpressionError(f"{expression} uses variables other than {', '.join(variables)}, its operands")
    missing = set(variables) - expression.variables
    if missing and len(variables) == 2:
        raise ExpressionError(f"{expression} does not use {' and '.join(sorted(missing))}: ⊕ and ⊗ use both operands")
    return expression


def _parse_element(value: Constant | str | Expression) -> Expression:
    if isinstance(value, str):
        return parse(value, ())
    element = as_operation(value if isinstance(value, Expression) else constant(value), allow_nan=False)
    if element.variables:
        raise ExpressionError(f"the element {element} has variables: give a number")
    return element


def _number_or_text(element: Expression) -> Constant | str:
    """Return a finite element as a number, and any other element as its text, such as inf or ~0."""
    finite = element.op == "const" and math.isfinite(element.leaf)  # type: ignore[arg-type]  # a const's leaf
    return element.leaf if finite else element.text  # type: ignore[return-value]  # a const's leaf is a Constant


def _literal(element: Expression) -> str:
    """Return the element as Python source: 0, 'inf', '~0'."""
    return repr(_number_or_text(element))


def _sort_dtype_names(dtypes: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted names of dtypes, because their order has no meaning."""
    if isinstance(dtypes, str):
        raise DTypeError(f"dtypes={quote(dtypes)} is a text: give a tuple of names, ({quote(dtypes)},)")
    dtypes = list(dtypes) if isinstance(dtypes, Iterable) else [dtypes]
    if not all(isinstance(dtype, str | type | np.dtype) for dtype in dtypes):
        raise DTypeError(f"dtypes={quote(dtypes)}: give a tuple of names, such as ('float32', 'float64')")
    try:
        # NumPy accepts the name bfloat16 only after ml_dtypes was imported.
        return tuple(sorted({"bfloat16" if dtype == "bfloat16" else np.dtype(dtype).name for dtype in dtypes}))
    except TypeError as error:
        raise DTypeError(f"{error}: the dtypes are {', '.join(DTYPES)}, float16 and bfloat16") from None


@lru_cache(maxsize=1024)
def _element_for(semiring: Semiring, name: Literal["zero", "one"], dtype: np.dtype[Any]) -> Any:
    """Return 0̄ or 1̄ in a dtype. The hash of a semiring is cached, that of an expression is not."""
    element: Expression = getattr(semiring, name)
    if element.op == "const":
        return typed_constant(element.leaf, dtype)  # type: ignore[arg-type]  # a const's leaf is a Constant
    return dtype.type(element.evaluate({}, dtype))


@lru_cache(maxsize=1024)
def _unsupported_reason(semiring: Semiring, dtype: np.dtype[Any]) -> str | None:
    """Return the reason why the semiring is not defined on the dtype, or None if it is defined."""
    if dtype.kind not in "fiub" and not is_floating(dtype):
        return f"{dtype} is not a real number type"
    if semiring._dtypes is not None and dtype.name not in semiring._dtypes:
        return "its definition does not name it"
    operations = semiring.add.expression.operations | semiring.mul.expression.operations
    arithmetic = operations & {"add", "sub", "mul", "neg", "abs"}
    bounded = dtype.kind == "u" or (dtype.kind == "i" and not semiring.tropical)
    if bounded and arithmetic and semiring._dtypes is None:
        trees = {"⊕": semiring.add.expression, "⊗": semiring.mul.expression}
        leaving = [f"{sign}, {tree.text}," for sign, tree in trees.items() if tree.operations & arithmetic]
        return f"{' and '.join(leaving)} {_OUT_OF_RANGE}"
    try:
        for expression in (semiring.add.expression, semiring.mul.expression, semiring.zero, semiring.one):
            expression.check_dtype(dtype)
        if semiring.zero_for(dtype) == semiring.one_for(dtype):
            return f"its zero {semiring.zero} and its one {semiring.one} coincide there"
    except DTypeError as error:
        return str(error)
    return None
