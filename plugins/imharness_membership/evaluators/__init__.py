"""Membership-inference evaluators, one per file."""
