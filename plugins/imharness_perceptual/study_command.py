"""`harness perceptual`: draw the distortions, the images on which metrics disagree, and the learnt weights."""

from __future__ import annotations

from pathlib import Path

import click

from imharness.commands import Choice, Group, assets_option, seed_option, store_option

TRACK = "harness/perceptual"
STORE = store_option()


@click.group(cls=Group)
def perceptual() -> None:
    """Draw the distortions, the images on which metrics disagree, and the learnt weights."""


@perceptual.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="Folder to write.")
@click.option(
    "--dataset",
    default="harness/severity-ladder[severities=[],size=128]",
    show_default=True,
    metavar="NAME",
    help="Data set of photographs to distort.",
)
@click.option(
    "--images", type=click.IntRange(1), default=4, show_default=True, metavar="N", help="Use the first N images."
)
@seed_option()
@assets_option("data")
def distortions(out: Path, dataset: str, images: int, seed: int, assets: Path | None) -> None:
    """Write a contact sheet per distortion: photographs from left to right, severities 0 to 1 downwards."""
    from imharness.commands import add_assets, console, device_of, find
    from imharness.errors import UsageError
    from imharness_perceptual.contact_sheets import write_sheets

    if assets is not None:
        add_assets(assets)
    data = find("dataset", dataset).build(device_of("cpu")).first(images)  # type: ignore[attr-defined]
    if len(set(data.shapes)) > 1:
        raise UsageError(f"{dataset} has images of several sizes; a sheet needs one.")
    files = write_sheets(data.load(list(range(len(data)))), out, seed)
    console.say(f"{len(files)} contact sheets in {out}")


@perceptual.command()
@STORE
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="File to write (svg, pdf, png)."
)
def tests(store: str, out: Path) -> None:
    """Draw every metric's agreement on forced choices against its score on just noticeable differences."""
    from imharness.commands import console, query
    from imharness.errors import UsageError
    from imharness_perceptual.plots import both_tests_scatter
    from imharness_perceptual.tables import both_tests, distances, forced_choices

    images = distances(query(store, TRACK))
    scores = both_tests(images, forced_choices(images))
    if not scores:
        raise UsageError(f"store {store} has no metric with both tests; run BAPPS with --dataset bapps:PATH.")
    both_tests_scatter(scores, out)
    console.say(f"{len(scores)} metrics: {out}")


@perceptual.command()
@click.argument("first")
@click.argument("second")
@STORE
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="File to write (svg, pdf, png)."
)
@click.option(
    "--images", type=click.IntRange(1), default=8, show_default=True, metavar="N", help="Images of each kind."
)
@assets_option("data")
def disagreements(first: str, second: str, store: str, out: Path, images: int, assets: Path | None) -> None:
    """Draw the images that metric FIRST finds near and SECOND finds far, the reverse, and those on which both agree.

    These are figures 6 and 11 of LPIPS, where FIRST is SSIM and SECOND a deep network.
    """
    import numpy as np

    from imharness.commands import add_assets, component, console, device_of, find, query
    from imharness.errors import UsageError
    from imharness_perceptual.plots import agreements, gallery
    from imharness_perceptual.plots import disagreements as ranked_apart

    if assets is not None:
        add_assets(assets)
    labels = [component("metric", name).label for name in (first, second)]
    rows = query(store, TRACK)(
        "SELECT metric, dataset, name, reference, distance FROM distance WHERE name <> reference"
    )
    measured = [label for label in labels if label in set(rows["metric"])]
    if len(measured) < 2:
        raise UsageError(f"store {store} has no distances of {' or '.join(sorted(set(labels) - set(measured)))}.")
    dataset = str(rows["dataset"][rows["metric"] == labels[0]][0])
    distances = []
    for label in labels:
        here = (rows["metric"] == label) & (rows["dataset"] == dataset)
        distances.append(dict(zip(rows["name"][here], rows["distance"][here], strict=True)))
    names = sorted(set(distances[0]) & set(distances[1]))
    values = [np.array([distance[name] for name in names]) for distance in distances]
    data = find("dataset", dataset).build(device_of("cpu"))  # type: ignore[attr-defined]
    position = {name: i for i, name in enumerate(data.names)}
    first_label, second_label = labels
    first_near, second_near = ranked_apart(*values, images)
    both_near, both_far = agreements(*values, images)
    if not len(first_near) and not len(second_near):
        raise UsageError(f"{first_label} and {second_label} rank all images in the same order.")
    chosen_by_title = {
        f"{first_label} says near, {second_label} says far": first_near,
        f"{second_label} says near, {first_label} says far": second_near,
        f"{first_label} and {second_label} say near": both_near,
        f"{first_label} and {second_label} say far": both_far,
    }
    drawn = []
    for title, chosen in chosen_by_title.items():
        if len(chosen):
            positions = [position[names[i]] for i in chosen]
            origins = [position[str(data.columns["reference"][p])] for p in positions]
            captions = [f"{values[0][i]:.3g} / {values[1][i]:.3g}" for i in chosen]
            drawn.append((title, data.load(origins), data.load(positions), captions))
    gallery(drawn, out)
    console.say(f"{out}: {dataset}, distances by {first_label} / {second_label}")


@perceptual.command()
@click.argument("source", metavar="FILE|NET")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="File to write (svg, pdf, png)."
)
@click.option(
    "--lpips-release",
    "release",
    type=Choice(["0.0", "0.1"]),
    default="0.1",
    show_default=True,
    help="Release of a NET's weights.",
)
def weights(source: str, out: Path, release: str) -> None:
    """Draw the weights of channels by layer: of a FILE of `harness train lpips`, or published for a NET.

    NET is alex, vgg or squeeze. A weight below 0.001 counts as zero (LPIPS, figure 10, whose numbers are of release
    0.0).
    """
    from imharness.commands import console
    from imharness.errors import UsageError
    from imharness.files import read_tensors
    from imharness_perceptual.plots import learnt_weights
    from imharness_vision.lpips import BACKBONES, published_heads

    if source in BACKBONES:
        heads = published_heads(source, release)  # type: ignore[arg-type]
        arrays = {f"weights.{i}": head.numpy() for i, head in enumerate(heads)}
    elif Path(source).is_file():
        arrays = {name: tensor.numpy() for name, tensor in read_tensors(Path(source)).items()}
    else:
        raise UsageError(f"{source} is neither a file nor one of {', '.join(BACKBONES)}.")
    for layer, share in learnt_weights(arrays, out).items():
        console.say(f"{layer}: {share:.1%} zero")
