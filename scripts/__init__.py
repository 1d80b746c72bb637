"""Commands: the comparison of credits, benchmarks, level sets."""
