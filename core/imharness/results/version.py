"""The name of the package, and the versions of it and of the files that it writes, which stand only here."""

DISTRIBUTION = "image-privacy-harness"
"""The package that this project is distributed as."""
__version__ = "0.1.0"

SCHEMA = 4
"""The version of the format of records, sweeps and leaderboards, and of the files that the site offers."""
