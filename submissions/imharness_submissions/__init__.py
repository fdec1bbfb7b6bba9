"""Entries of others: a manifest, the package it pins, a run in the sandbox, a report, and the ledger of decisions."""
