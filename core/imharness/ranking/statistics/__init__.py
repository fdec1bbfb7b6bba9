"""Statistics of the leaderboard: pure numpy and scipy, no torch."""
