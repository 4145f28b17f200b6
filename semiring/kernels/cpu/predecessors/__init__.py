"""Predecessors on the CPU: the search for them, the direct edges that it tries, and the trees that it leaves."""
