"""Track 1: defenses against attacks on no-reference image-quality metrics."""

PLUGIN_MODULES = ("attacks", "certifications", "datasets", "defenses", "metrics", "trainings", "track")
"""The modules with plugins; of a package, every module is one."""
