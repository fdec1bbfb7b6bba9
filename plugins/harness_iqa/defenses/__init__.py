"""Purifications."""
