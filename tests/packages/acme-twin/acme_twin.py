"""A second package that registers the labels of acme-median-smoothing."""

from acme_median_smoothing import MedianSmoothing

from imharness.api import Purification, hookimpl


@hookimpl
def register_defenses() -> list[Purification]:
    return [MedianSmoothing(radius=1), MedianSmoothing(radius=2)]
