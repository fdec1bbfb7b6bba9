"""For people whose track ranks entries that are attacked: who wins, by rules that are the same in all tracks."""

from imharness.ranking.contest import contest
from imharness.ranking.controls import controls_of, facts_of, flags_of
from imharness.ranking.evidence import HANDED_IN, Evidence, with_evidence
from imharness.ranking.gates import Gate, share_of
from imharness.ranking.rules import Chosen, Contest, Yardstick, common, own_among

__all__ = [
    "HANDED_IN",
    "Chosen",
    "Contest",
    "Evidence",
    "Gate",
    "Yardstick",
    "common",
    "contest",
    "controls_of",
    "facts_of",
    "flags_of",
    "own_among",
    "share_of",
    "with_evidence",
]
