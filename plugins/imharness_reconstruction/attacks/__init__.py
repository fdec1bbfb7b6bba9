"""Attacks that rebuild images from gradients, one per file."""
