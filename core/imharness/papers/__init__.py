"""The tables of published studies as data, and how the numbers of a leaderboard compare with them. Imports no torch."""
