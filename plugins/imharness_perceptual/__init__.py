"""Track 3: which distance between images sees like people."""

PLUGIN_MODULES = ("datasets", "metrics", "trainings", "track")
"""Where the plugins are: a module, or a package of which every module is one."""
