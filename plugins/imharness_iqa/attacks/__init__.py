"""Attacks on no-reference metrics."""
