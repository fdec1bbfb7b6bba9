"""The static site of the leaderboard. It shows tables that were made before, and loads no torch."""
