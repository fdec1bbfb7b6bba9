"""The versions of the package and of the files that it writes, which stand only here."""

__version__ = "0.1.0"

SCHEMA = 3
"""The version of the format of records, sweeps and boards, and of the files that the site offers."""
