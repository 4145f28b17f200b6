"""Run functions of NetworkX faster as its backend ``semiring``, without changes to a script.

    NETWORKX_BACKEND_PRIORITY=semiring python script.py

NetworkX (from 3.4 on) finds the backend by its entry points, which are in the package `_semiring_networkx`. It calls
`should_run` there before every call, and converts a graph once (`graph`). The modules `all_pairs`, `distances`,
`listed_paths` and `measures` compute. Results have NetworkX's types, keys and order of the outer keys. Distances are
Python's numbers even if weights are NumPy's or bool. Calls for which NetworkX raises an error are declined.
"""
