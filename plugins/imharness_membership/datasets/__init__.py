"""Tables of labelled rows in their published files, one per file."""
