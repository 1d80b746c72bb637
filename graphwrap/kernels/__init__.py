"""Numba kernels of the graph and the credit. They know arrays only."""
