"""A portal in a process of its own, for real notebook servers; workloads are only told of."""
