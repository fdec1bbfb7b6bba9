"""Submissions: packages of strangers get a manifest, run in a sandbox, and are reported on and put on the board."""
