"""Stores of millions of rows in the layout of a run, with numbers drawn by chance: what tables are timed on."""
