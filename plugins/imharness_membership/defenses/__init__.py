"""Defenses against membership inference, one per file."""
