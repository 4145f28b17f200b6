"""The NetworkX backend ``semiring``: a script that uses NetworkX runs faster and stays as it is.

    NETWORKX_BACKEND_PRIORITY=semiring python script.py

NetworkX (from 3.4 on) finds the backend by its entry points, which are in the package `_semiring_networkx`: there it
asks before every call who is faster, and converts a graph once (`graph`). Here is what computes: `pairs`, `measures`,
`reachability`. Results are what NetworkX returns, by type, keys and order of the outer keys, but distances are Python's
numbers where weights are NumPy's or bool; what it has an error for is left to it.
"""
