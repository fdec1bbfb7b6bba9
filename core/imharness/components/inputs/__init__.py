"""What people provide: data sets that do not ship with the code, and names of components in options of tracks.

A data set states where it comes from, how it is laid out, and what it must hold.
"""

from imharness.components.inputs.names import check_names
from imharness.contracts.data_source import Archive, DataSource

__all__ = ["Archive", "DataSource", "check_names"]
