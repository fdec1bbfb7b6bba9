"""Compares our speed with other libraries in one process, and with time budgets: ``python -m benchmarks``."""
