"""The kernels of the papers, one numbered file an idea: baselines, for comparison."""
