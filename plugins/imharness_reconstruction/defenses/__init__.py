"""Defenses of the shared gradient, one per file."""
