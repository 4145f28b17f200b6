"""Find the least ratio of cost to time of the cycles of each strong component, by Howard's policy iteration.

A policy is one edge out of every vertex. Its cycles have ratios; the least of them is λ = p / q. Every vertex gets the
value d of its way into that cycle under the reduced costs q·c - p·t. An edge that lowers the value of its tail replaces
the edge of the policy. If no edge does, the reduced costs under the potentials d are ≥ 0, which proves λ least.

λ never increases, and while it stays, the values decrease. So the iteration ends, in exact arithmetic without a bound
for rounding, in floats with one.

Source: J. Cochet-Terrasson, G. Cohen, S. Gaubert, M. McGettrick, J.-P. Quadrat, "Numerical computation of spectral
elements in max-plus algebra", IFAC 1998; A. Dasdan, ACM TODAES 9 (2004). Cost: O(m) for each iteration, of which graphs
need some tens; no better bound than the number of policies is known.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-incomplete-defs=False
# (the functions below are compiled: their types are Numba's)

from __future__ import annotations

import numpy as np

from semiring.kernels.cpu.codegen.jit import inner, kernel
from semiring.kernels.cpu.codegen.memory_intrinsics import assume_no_nan
from semiring.kernels.cpu.elimination import elimination_trees

transpose_rows = elimination_trees.transpose_rows.compiled


@kernel
def select_inside(component, place, order, starts, heads, inside_starts, inside_heads, positions):
    """Select the edges inside components, and return their number.

    Parameters
    ----------
    component, place : arrays of int64 and int32, shape (n,)
        The component of each vertex, and its position in ``order``.
    order : array of int64, shape (n,)
        The vertices, component after component.
    starts, heads : arrays of int64 (n + 1,) and int32 (m,)
        All edges as compressed rows.
    inside_starts, inside_heads, positions : arrays of int64 (n + 1,), int32 (m,) and int64 (m,)
        The results: the selected edges as compressed rows, in the new order, and their positions in ``heads``.

    """
    count = 0
    for i in range(len(order)):
        inside_starts[i] = count
        u = order[i]
        for e in range(starts[u], starts[u + 1]):
            if component[heads[e]] == component[u]:
                inside_heads[count], positions[count] = place[heads[e]], e
                count += 1
    inside_starts[len(order)] = count
    return count


@kernel
def iterate_policies(bounds, starts, heads, costs, times, policy, d, ratios, rounding):
    """Compute the least ratio of every component, with a policy and values that prove it.

    The vertices are in the order of the components, and each edge lies in one component.

    Parameters
    ----------
    bounds : array of int64, shape (components + 1,)
        The first vertex of each component, and n.
    starts, heads : arrays of int64 (n + 1,) and int32 (m,)
        The edges as compressed rows, whose heads ascend strictly.
    costs : array of int64 or float64, shape (m,)
        The costs, finite.
    times : array of the dtype of the costs, shape (m,) or (1,)
        The times, ≥ 0 and above 0 on every cycle. One element stands for all edges.
    policy, d : arrays of int64 (n,) and of the dtype of the costs (n,)
        The results: the edge out of each vertex, -1 without one, and the values.
    ratios : array of the dtype of the costs, shape (components, 2)
        The result: p and q of each component; q is 0 without a cycle.
    rounding : float
        The relative error of a value, 0 for exact arithmetic: a smaller improvement counts as none.

    """
    assume_no_nan()
    seen = np.full(len(d), -1, np.int64)
    path = np.empty(len(d), np.int64)
    for component in range(len(bounds) - 1):
        first, last = bounds[component], bounds[component + 1]
        if starts[first] == starts[last]:
            continue
        for u in range(first, last):
            d[u] = 0
        for u in range(first, last):  # under the values 0 the least reduced cost is that of the least cost
            policy[u] = best_edge(u, starts, heads, costs, times[:1], d, costs[0] * 0 + 1, costs[0] * 0)[1]
        seen[first:last] = -1
        goal, p, q = best_cycle(first, last, heads, costs, times, policy, seen)
        columns = starts[:0], heads[:0], starts[:0]  # transposed when a search needs them
        columns = lead_to(goal, first, last, starts, heads, columns, policy, seen, path)
        while True:
            seen[first:last] = -1
            evaluate(goal, first, last, heads, costs, times, policy, d, p, q, seen, path)
            if not improve(first, last, starts, heads, costs, times, policy, d, p, q, rounding):
                break
            seen[first:last] = -1
            other, new_p, new_q = best_cycle(first, last, heads, costs, times, policy, seen)
            if new_p * q < p * new_q:
                goal, p, q = other, new_p, new_q
                columns = lead_to(goal, first, last, starts, heads, columns, policy, seen, path)
        ratios[component, 0] = p
        ratios[component, 1] = q


@kernel
def best_cycle(first, last, heads, costs, times, policy, seen):
    """Return a vertex of the cycle of the least ratio in a policy, its cost and its time; ``seen`` is -1."""
    goal, p, q = first, costs[0], times[0]
    step = 0 if len(times) == 1 else 1
    is_first = True
    for start in range(first, last):
        u = start
        while seen[u] < 0:
            seen[u] = start
            u = heads[policy[u]]
        if seen[u] != start:
            continue
        cost, time, v = costs[policy[u]], times[step * policy[u]], heads[policy[u]]
        while v != u:
            cost += costs[policy[v]]
            time += times[step * policy[v]]
            v = heads[policy[v]]
        if is_first or cost * q < p * time:
            goal, p, q, is_first = u, cost, time, False
    return goal, p, q


@kernel
def lead_to(goal, first, last, starts, heads, columns, policy, seen, path):
    """Change the edges of the vertices from which the policy does not reach the goal, so that it does.

    ``columns`` are the compressed columns of the component, counted from its first vertex and edge, or empty. They are
    returned, transposed if they were needed.
    """
    seen[first:last] = 0
    u = goal
    while seen[u] == 0:  # the cycle of the goal keeps its edges
        seen[u] = 1
        u = heads[policy[u]]
    for start in range(first, last):
        u, count = start, 0
        while seen[u] == 0:
            seen[u] = 2
            path[count] = u
            count += 1
            u = heads[policy[u]]
        mark = 1 if seen[u] == 1 else 3
        for i in range(count):
            seen[path[i]] = mark
    for _ in range(2):  # in a dense graph nearly every vertex has an edge to a marked one
        remaining = 0
        for u in range(first, last):
            if seen[u] == 1:
                continue
            remaining += 1
            for e in range(starts[u], starts[u + 1]):
                if seen[heads[e]] == 1:
                    seen[u] = 1
                    policy[u] = e
                    remaining -= 1
                    break
        if remaining == 0:
            return columns
    base = starts[first]
    if columns[1].size == 0:
        columns = transpose_rows(starts[first : last + 1] - base, heads[base : starts[last]] - np.int32(first))
    entry_starts, tails, entries = columns
    count = 0
    for u in range(first, last):
        if seen[u] == 1:
            path[count] = u
            count += 1
    i = 0
    while i < count:
        v = path[i]
        i += 1
        for position in range(entry_starts[v - first], entry_starts[v - first + 1]):
            u = first + tails[position]
            if seen[u] != 1:
                seen[u] = 1
                policy[u] = base + entries[position]
                path[count] = u
                count += 1
    return columns


@kernel
def evaluate(goal, first, last, heads, costs, times, policy, d, p, q, seen, path):
    """Set d to the reduced costs of the ways along the policy to the goal, whose value stays."""
    step = 0 if len(times) == 1 else 1
    seen[goal] = 1
    for start in range(first, last):
        u, count = start, 0
        while seen[u] < 0:
            seen[u] = 1
            path[count] = u
            count += 1
            u = heads[policy[u]]
        for i in range(count - 1, -1, -1):
            u = path[i]
            e = policy[u]
            d[u] = d[heads[e]] + (q * costs[e] - p * times[step * e])


@inner
def best_edge(u, starts, heads, costs, times, d, q, p):
    """Return the least reduced way of a vertex, d of a head plus q·c - p·t, and its first edge."""
    assume_no_nan()
    begin, end = starts[u], starts[u + 1]
    head, time = heads[begin], p * times[0]
    least = d[head] + (q * costs[begin] - time)
    if len(times) > 1:
        best = begin
        least = d[head] + (q * costs[begin] - p * times[begin])
        for e in range(begin + 1, end):
            value = d[heads[e]] + (q * costs[e] - p * times[e])
            if value < least:
                least, best = value, e
        return least, best
    if heads[end - 1] - head == end - 1 - begin:  # consecutive heads, which a dense matrix has: vectors, without gather
        values, line = d[head : head + end - begin], costs[begin:end]
        for i in range(end - begin):
            value = values[i] + (q * line[i] - time)
            least = value if value < least else least  # LLVM makes no vectors of min
    else:
        for e in range(begin, end):
            value = d[heads[e]] + (q * costs[e] - time)
            least = value if value < least else least
    best = begin
    while d[heads[best]] + (q * costs[best] - time) > least:
        best += 1
    return least, best


@kernel
def improve(first, last, starts, heads, costs, times, policy, d, p, q, rounding):
    """Take the edges that lower the values of their tails. Return whether there was one."""
    assume_no_nan()
    is_better, bound = False, 0.0
    if rounding > 0:
        for u in range(first, last):
            bound = max(bound, abs(d[u]))
        bound *= rounding
    for u in range(first, last):
        least, best = best_edge(u, starts, heads, costs, times, d, q, p)
        if least < d[u] and d[u] - least > bound:
            d[u] = least
            policy[u] = best
            is_better = True
    return is_better


@kernel
def mark_tight_edges(first, last, starts, heads, costs, times, d, p, q, bound, is_tight):
    """Mark the edges of a component whose reduced cost is at most a bound, in ``is_tight`` (m,) of bool."""
    step = 0 if len(times) == 1 else 1
    for u in range(first, last):
        most = d[u] + bound
        for e in range(starts[u], starts[u + 1]):
            is_tight[e] = d[heads[e]] + (q * costs[e] - p * times[step * e]) <= most


@kernel
def shift_potentials(bounds, order, component, starts, heads, weights, factor, mean, potentials):
    """Shift the potentials of each component, so that the reduced costs of edges between components are ≥ 0 too.

    Parameters
    ----------
    bounds, order : arrays of int64 (components + 1,) and (n,)
        The vertices of each component, in a topological order of the components.
    component : array of int64 (n,)
        The component of each vertex.
    starts, heads : arrays of int64 (n + 1,) and int32 (m,)
        The edges as compressed rows.
    weights : array of int64 or float64, shape (m,)
        The weights w, of cost factor · w - mean.
    factor, mean : int or float
        Numbers of the dtype of the weights.
    potentials : array of the dtype of the weights, shape (n,)
        Potentials under which the reduced costs inside each component are ≥ 0. They are overwritten.

    """
    for number in range(len(bounds) - 2, -1, -1):
        shift = potentials[0] * 0
        for position in range(bounds[number], bounds[number + 1]):
            u = order[position]
            for e in range(starts[u], starts[u + 1]):
                if component[heads[e]] != number:
                    shift = min(shift, factor * weights[e] - mean + potentials[heads[e]] - potentials[u])
        for position in range(bounds[number], bounds[number + 1]):
            potentials[order[position]] += shift


@kernel
def reduce_costs(first, last, width, starts, heads, weights, factor, mean, potentials, begins, tails, reduced):
    """Write the reduced costs of the edges to the vertices first … last - 1, and their tails, as compressed columns.

    ``begins`` are the starts of the columns, of which ``width`` are written at a time. The heads of each row ascend.
    The other parameters are those of `shift_potentials`.
    """
    n = len(starts) - 1
    slots, entries = begins[first:last].copy(), starts[:n].copy()
    if first > 0:
        for u in range(n):
            entries[u] += np.searchsorted(heads[starts[u] : starts[u + 1]], first)
    for limit in range(first + width, last + width, width):
        for u in range(n):
            e = entries[u]
            while e < starts[u + 1] and heads[e] < min(limit, last):
                v = heads[e]
                slot = slots[v - first]
                tails[slot] = u
                # rounding may make a tight edge negative
                reduced[slot] = max(factor * weights[e] - mean + potentials[v] - potentials[u], 0)
                slots[v - first] += 1
                e += 1
            entries[u] = e
