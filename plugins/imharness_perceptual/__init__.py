"""Track 3: which image distance agrees best with what people see."""

PLUGIN_MODULES = ("datasets", "metrics", "trainings", "track")
"""The modules with plugins; of a package, every module is one."""
