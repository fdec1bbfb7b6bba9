"""Judged images in their published layouts, one per file."""
