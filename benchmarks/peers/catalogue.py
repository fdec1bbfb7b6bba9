"""All works, in the order in which they are timed."""

from benchmarks.peers import images, numbers, scores

WORKS = (*images.WORKS, *scores.WORKS, *numbers.WORKS)
