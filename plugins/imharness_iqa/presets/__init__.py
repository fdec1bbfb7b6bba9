"""Strengths of attacks, measured."""
