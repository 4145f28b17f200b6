"""The NetworkX backend ``semiring``: a script that uses NetworkX runs faster and stays as it is.

    NETWORKX_BACKEND_PRIORITY=semiring python script.py

NetworkX (from 3.4 on) finds the backend by its entry points, `info.get_info` and `interface.backend`, converts a graph
once (`graph`), and asks `interface.should_run` before every call: where a sparse search takes less time than a dense
closure, by `costs`, NetworkX does it itself. Results are what NetworkX returns, by type, keys and order of the
outer keys; what it has an error for is left to it.

Nothing here is imported by NetworkX's own import but `info`, and that loads no compiler.
"""
