"""Track 1: defenses against attacks on no-reference image-quality metrics."""

PLUGIN_MODULES = ("attacks", "certifications", "datasets", "defenses", "metrics", "trainings", "track")
"""Where the plugins are: a module, or a package of which every module is one."""
