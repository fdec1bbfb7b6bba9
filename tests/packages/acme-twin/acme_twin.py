"""A second package that registers the labels of acme-median-smoothing."""

from acme_median_smoothing import MedianSmoothing

from imharness.images import Purification, hookimpl


@hookimpl
def components() -> list[Purification]:
    return [MedianSmoothing(radius=1), MedianSmoothing(radius=2)]
