"""Close matrices by the kernels of papers, as baselines for comparisons. `launches` has the table of the kernels."""
