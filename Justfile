# The few commands people use; `just` lists them.
default:
    @just --list

# Lint, types and the tests that the change touches, in about two minutes: the same as `python .ci/quick.py`.
quick:
    python .ci/quick.py

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

# Build the pages of the documentation; the first is docs/_build/html/index.html.
docs:
    sphinx-build -q -W -b html docs docs/_build/html
