"""Attacks and metrics of other libraries, and trackers that are told of new tables: a module for each library."""
