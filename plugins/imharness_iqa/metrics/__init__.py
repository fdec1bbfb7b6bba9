"""No-reference metrics."""
