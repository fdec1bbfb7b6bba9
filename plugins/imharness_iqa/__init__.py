"""Track 1: defenses against attacks on no-reference image-quality metrics."""
