"""Track 4: how much a model reveals about its training set."""

PLUGIN_MODULES = ("datasets", "defenses", "evaluators", "models", "track")
"""The modules with plugins; of a package, every module is one."""
