"""Data that ships inside scikit-image and scikit-learn: no download, no network."""

PLUGIN_MODULES = ("cnn_pairs", "digits", "folder_ladder", "pairs", "photographs")
"""The modules with plugins."""
