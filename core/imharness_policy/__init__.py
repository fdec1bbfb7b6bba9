"""Who wins, the same rules in all tracks: see `Contest`, and docs/ranking.md for readers."""

from imharness_policy.contest import contest
from imharness_policy.rules import Chosen, Contest, common, is_own

__all__ = ["Chosen", "Contest", "common", "contest", "is_own"]
