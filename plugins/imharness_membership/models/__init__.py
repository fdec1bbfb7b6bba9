"""Classifiers whose training sets are to be protected, one per file."""
