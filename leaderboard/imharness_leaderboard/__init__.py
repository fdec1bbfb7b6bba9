"""The static site of the leaderboard: renders boards, computes nothing, imports no torch."""
