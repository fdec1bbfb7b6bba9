"""Packages of strangers get a manifest, run in a sandbox, are reported on and enter the leaderboard."""
