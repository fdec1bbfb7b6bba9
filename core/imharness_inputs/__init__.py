"""Data sets that do not ship with the code: where they come from, how they are laid out, and what they must hold."""

from imharness_inputs.source import Archive, DataSource

__all__ = ["Archive", "DataSource"]
