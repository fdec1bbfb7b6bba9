"""People judge images: a local page, an SQLite file, votes that count."""

CUTOFF = 0.8
"""Share of decoys that a person must answer right for their votes to count, where nothing else is asked for."""
