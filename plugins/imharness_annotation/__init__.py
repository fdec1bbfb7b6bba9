"""People judge images on a local page; an SQLite file keeps their votes."""

CUTOFF = 0.8
"""The share of decoys that a person must answer right for their votes to count, by default."""
