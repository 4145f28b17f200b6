"""The steps, one reduction a file, in the order in which a problem meets them.

The intake makes a matrix of what was given. What follows it may look at all entries, and the order matters where errors
and memory do: all that can fail on the data fails in a look, before the first write. The reason for the place of each
step stands beside it in `STEPS`. Steps of your own are put between them by `register_step`.
"""

from __future__ import annotations

from semiring.chain.planner import OWN_STEPS, name_of
from semiring.chain.problem import Step
from semiring.chain.steps.arrays import arrays
from semiring.chain.steps.bits import bits
from semiring.chain.steps.bottleneck import bottleneck
from semiring.chain.steps.components import components
from semiring.chain.steps.edges import edges
from semiring.chain.steps.files import files
from semiring.chain.steps.half import half
from semiring.chain.steps.hops import hops
from semiring.chain.steps.integers import integers
from semiring.chain.steps.method import method
from semiring.chain.steps.minplus import minplus
from semiring.chain.steps.names import names
from semiring.chain.steps.narrow import narrow
from semiring.chain.steps.ordered import ordered
from semiring.chain.steps.packed import packed
from semiring.chain.steps.plus import plus
from semiring.chain.steps.reachability import reachability
from semiring.chain.steps.reweighted import reweighted
from semiring.chain.steps.scaled import scaled
from semiring.chain.steps.searches import searches
from semiring.chain.steps.separators import separators
from semiring.chain.steps.signs import signs
from semiring.chain.steps.sparse import sparse
from semiring.chain.steps.stacks import stacks
from semiring.chain.steps.structure import structure
from semiring.chain.steps.transposed import transposed
from semiring.chain.steps.unbounded import unbounded
from semiring.chain.steps.undirected import undirected
from semiring.errors import MethodError, UnknownNameError

__all__ = ["STEPS", "register_step", "steps_in_order", "unregister_step"]

#: The steps of the library. A step stands behind those whose work it reads, and before those that it spares any.
STEPS: tuple[Step, ...] = (
    # The intake, which alone sees what the caller gave. What is not an array yet is taken apart before `arrays`: it
    # would read a file into memory, and make a dense array of words and of edges.
    *(files, names, bits, sparse, arrays),
    # Blind to the entries: the dtype and the method. The look comes after them, in float32 where halves came in.
    *(half, method),
    # The shape. One matrix of a stack and a transpose are whole problems of their own; what follows knows (n, n), or a
    # stack that is closed together.
    *(stacks, transposed),
    # Dijkstra's algorithm reads the weights as they are: before any map.
    edges,
    # The sign. What follows knows min-plus alone, and weights whose sign the maps turn.
    minplus,
    # Edges of -∞, which have no potentials.
    unbounded,
    # The width: `integers` does what `narrow` could not prove to fit fewer bits, and what is below 0.
    *(narrow, integers),
    # The storage: components are joined by products of what they are stored as.
    *(ordered, packed),
    # The graph: first what takes n² pairs. What follows `signs` knows one component, where that matters: floats below
    # 0 have potentials of their own in each, under which they are `reweighted`; `scaled` is the same for products.
    *(structure, bottleneck, hops, reachability, searches, separators),
    *(signs, components, reweighted, scaled, undirected),
    # A⁺ of the matrix as the method will see it, so that the diagonal is kept in its dtype and under its maps.
    plus,
)
_steps = STEPS  # and those that were registered, in their places


def steps_in_order() -> tuple[Step, ...]:
    """All steps as a problem meets them: those of the library, and those that were registered."""
    return _steps


def register_step(step: Step, *, before: str | None = None) -> Step:
    """Let a step of your own be asked about every closure: in `closure`, the functions of paths and the command.

    Parameters
    ----------
    step
        ``step(problem)``, a function of a `semiring.chain.problem.Problem` that returns `No`, with the reason, or a
        `Reduction`, as `semiring.chain.problem.step` makes it of what refuses; its name is the function's, with spaces
        for underscores. It reads, may raise, and writes nothing.
        What it states of the problem that it returns must be true: nobody looks again.
    before
        The name of the step that it comes before, as ``explain`` prints it; by default it is the last one before the
        method. Before ``"arrays"`` and the steps ahead of it there is no matrix yet, only what the caller gave.

    Returns the step, so that it may stand as a decorator. Raises `MethodError` where a step has its name already, or it
    cannot be called, and `UnknownNameError` where none is called ``before``.

    Cost: while any step is registered, calls of small matrices are planned each time, some 0.15 ms, for a program would
    not ask the step about the entries.

    >>> from semiring.chain.problem import Reduction, step
    >>> @register_step
    ... @step
    ... def stars_only(problem):
    ...     yield not problem.plus, "a star"
    ...     return Reduction("A⁺", problem)
    >>> import numpy as np, semiring as sr
    >>> _, explanation = sr.closure(np.ones((2, 2)), explain=True)
    >>> print(*(link for link in explanation.chain if link.step == "stars only"))
      · stars only   a star
    >>> unregister_step("stars only")
    """
    global _steps
    if not callable(step):
        raise MethodError(f"a step is a function of a problem, not {step!r}")
    names = [name_of(each) for each in _steps]
    if name_of(step) in names:
        raise MethodError(f"{name_of(step)!r} is a step already: choose another name")
    if before is not None and before not in names:
        raise UnknownNameError("step", before, names)
    place = len(names) if before is None else names.index(before)
    _steps = (*_steps[:place], step, *_steps[place:])
    OWN_STEPS.add(step)
    return step


def unregister_step(name: str) -> None:
    """Forget a step that was registered. Raises `MethodError` for one that the library brings, and for others."""
    global _steps
    rest = tuple(step for step in _steps if step in STEPS or name_of(step) != name)
    if len(rest) == len(_steps):
        raise MethodError(f"{name!r} is not a registered step")
    _steps = STEPS if len(rest) == len(STEPS) else rest
    OWN_STEPS.intersection_update(rest)
