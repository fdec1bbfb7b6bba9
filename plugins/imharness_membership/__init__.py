"""Track 4: how much a model gives away about its training set."""

PLUGIN_MODULES = ("datasets", "defenses", "evaluators", "models", "track")
"""Where the plugins are: a module, or a package of which every module is one."""
