"""Metrics of a whole set of reconstructions, one per file."""
