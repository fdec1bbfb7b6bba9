"""Track 2: what shared gradients give away about private images."""

PLUGIN_MODULES = ("attacks", "datasets", "defenses", "metrics", "models", "trainings", "track")
"""Where the plugins are: a module, or a package of which every module is one."""
