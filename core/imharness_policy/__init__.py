"""Who wins, the same rules in all tracks: see `Contest`, and docs/ranking.md for readers."""

from imharness_policy.contest import Contest, contest

__all__ = ["Contest", "contest"]
