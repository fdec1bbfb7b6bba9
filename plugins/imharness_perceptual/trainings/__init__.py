"""Trainings of distances, one per file."""
