"""Speed against peers and budgets, side by side in one process: ``python -m benchmarks``."""
