"""The schedule of the square and patch attacks, for a budget of 10,000 queries."""

HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""The queries after which the share of changed pixels is halved."""


def share(initial: float, query: int, queries: int) -> float:
    """Return the share of pixels that changes at a query; the schedule is stretched to the budget of `queries`."""
    scaled_query = 10_000 * query / queries
    halvings = sum(scaled_query > after for after in HALVINGS)
    return initial / 2**halvings
