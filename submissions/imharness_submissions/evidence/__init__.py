"""Evidence against a listed entry: attacked images that somebody hands in, computed again before they count."""
