"""Arrays: whose they are, where they live, what they hold, and the values that kernels see in their place."""
