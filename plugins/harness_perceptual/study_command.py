"""`harness perceptual`: see the distortions, and where metrics disagree."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def perceptual() -> None:
    """See the distortions of the perceptual track."""


@perceptual.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write.")
@click.option("--dataset", default="harness/severity-ladder[severities=[],size=128]", show_default=True)
@click.option("--images", type=click.IntRange(1), default=4, show_default=True, help="Use the first N images.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--assets", type=click.Path(path_type=Path, exists=True), help="Look for data here first.")
def distortions(out: Path, dataset: str, images: int, seed: int, assets: Path | None) -> None:
    """Write a contact sheet per distortion: photographs across, severities 0 to 1 down."""
    from harness.api import UsageError
    from harness.commands import add_assets, console, find, place
    from harness_perceptual.contact_sheets import write_sheets

    if assets is not None:
        add_assets(assets)
    data = find("dataset", dataset).build(place("cpu")).first(images)  # type: ignore[attr-defined]
    if len(set(data.shapes)) > 1:
        raise UsageError(f"{dataset} has images of several sizes; a sheet needs one.")
    files = write_sheets(data.load(list(range(len(data)))), out, seed)
    console.say(f"{len(files)} contact sheets in {out}")
