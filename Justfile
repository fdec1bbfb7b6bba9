# The few commands people use; `just` lists them.
default:
    @just --list

# Lint, types, import rules, tests.
check:
    ruff check .
    ruff format --check .
    mypy
    python docs/generate.py --check
    pytest

# Put lint and format right.
fix:
    ruff check --fix .
    ruff format .
    python docs/generate.py

# Run the embedded profile and look at the site.
demo:
    harness run --all
    harness site serve

# Speed against peers and budgets.
bench:
    python -m benchmarks

# Build the pages of the documentation and open them.
docs:
    sphinx-build -q -W -b html docs docs/_build/html
    harness docs
