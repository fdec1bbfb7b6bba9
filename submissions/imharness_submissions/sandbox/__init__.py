"""Runs code that nobody has reviewed: in a process of its own under bubblewrap, connected by a pipe."""
