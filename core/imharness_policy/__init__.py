"""Who wins, the same rules in all tracks: see `Contest`, and docs/ranking.md for readers."""

from imharness_policy.contest import Chosen, Contest, contest

__all__ = ["Chosen", "Contest", "contest"]
