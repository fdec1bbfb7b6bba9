"""People judge images: a local page, an SQLite file, votes that count."""
