"""The chain of reductions: a closure becomes an easier problem, step by step, until a method closes what is left.

`problem` says what a problem is, `matrix` how it is read through the maps that wait, `steps` has one reduction a file,
`planner` puts them together and runs what was planned, by the method of a `leaf`, and `program` keeps what was planned
for calls of the same kind.
"""
