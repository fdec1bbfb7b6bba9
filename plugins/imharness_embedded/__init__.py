"""Data that ships inside scikit-image and scikit-learn: no download, no network."""

PLUGIN_MODULES = ("digits", "folder_ladder", "pairs", "photographs")
"""Where the plugins are: a module, or a package of which every module is one."""
