"""Target classifiers, one architecture per file."""
