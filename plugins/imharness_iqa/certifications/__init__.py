"""Defenses that prove how much a score can change."""
