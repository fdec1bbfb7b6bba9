"""Data that ships inside scikit-image and scikit-learn: no download, no network."""
