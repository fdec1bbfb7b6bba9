"""Track 2: what shared gradients reveal about private images."""

PLUGIN_MODULES = ("attacks", "datasets", "defenses", "metrics", "models", "trainings", "track")
"""The modules with plugins; of a package, every module is one."""
