"""Scores as arrays, which all tables are made of. Imports no torch."""
