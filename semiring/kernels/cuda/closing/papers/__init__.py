"""The kernels of papers, under the names of their methods: baselines to compare with. `launches` has the table."""
