"""All works, in the order in which they are timed."""

from benchmarks.peers import images, networks, numbers, scores

WORKS = (*images.WORKS, *scores.WORKS, *numbers.WORKS, *networks.WORKS)
