"""Trainings, one per file."""
