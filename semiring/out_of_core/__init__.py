"""Compute closures of matrices in files that are larger than the memory, by strips of rows.

- `stored_matrix` describes the file of a matrix, and `disk` reads and writes its rows.
- `layout` cuts a closure into strips and rounds that fit a memory.
- `buffer_pools` allocates the buffers of strips on the host or on a GPU.
- `rounds` runs blocked Floyd-Warshall on strips.
- `last_round` adds the entries that depend on the whole closed matrix.
- `journal` records the progress, so that an interrupted run resumes.
- `run` connects these modules.
"""
