"""`harness pyiqa`: prepare metrics of pyiqa on this machine."""

from __future__ import annotations

import sys

import click

from imharness.commands import Group, device_option


@click.group(cls=Group)
def pyiqa() -> None:
    """Prepare metrics of the library pyiqa: weights, range of scores, gradients."""


@pyiqa.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--dataset",
    default="harness/severity-ladder[size=256]",  # LIQE takes no side below 224 px, MS-SSIM none below 161
    show_default=True,
    metavar="NAME",
    help="Images that give the range.",
)
@click.option(
    "--images",
    type=click.IntRange(2),
    default=60,
    show_default=True,
    metavar="N",
    help="Use N of its images, spread evenly.",
)
@device_option()
def prepare(names: tuple[str, ...], dataset: str, images: int, device: str) -> None:
    """Fetch the weights of metrics by NAME in pyiqa, and measure and keep the range of their scores.

    A metric that cannot be prepared, such as one for larger images, is named with the reason; the rest go on.
    """
    from imharness.commands import console, device_of, find
    from imharness.errors import Unavailable, UsageError
    from imharness_adapters.pyiqa.metrics import configurations
    from imharness_adapters.pyiqa.preparing import prepared_on, why

    available = {**configurations("NR"), **configurations("FR")}
    if not available:
        raise Unavailable("the package pyiqa is not installed", "pip install 'image-privacy-harness[pyiqa]'")
    strange = [name for name in names if name not in available]
    if strange:
        raise UsageError(f"pyiqa has no metric {strange[0]!r} for single images; pyiqa.list_models() lists them.")
    data = find("dataset", dataset)
    failures = 0
    for name in names:
        try:
            result = prepared_on(name, data, images, device_of(device))
        except Exception as error:  # pyiqa and what it calls raise errors of any kind
            failures += 1
            console.warn(f"{name} is not prepared: {why(error)}")
            continue
        gradient = "gradients reach the images" if result.differentiable else "no gradients"
        console.say(
            f"{name}: {result.lower:g} to {result.upper:g} on {result.images} images of {result.data}; {gradient}"
        )
    sys.exit(1 if failures else 0)
