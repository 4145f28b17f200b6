"""Threads of the library: a pool for tasks of Python, and a team for blocks of native code."""
