"""`harness reconstruction`: export judged reconstructions, search transformation policies, study SemSim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.commands import Choice, Group, assets_option, device_option, json_option, seed_option, store_option

if TYPE_CHECKING:
    from imharness_reconstruction.export import Rebuilt

TRACK = "harness/reconstruction"
STORE = store_option()


@click.group(cls=Group)
def reconstruction() -> None:
    """Export judged reconstructions, search transformation policies, and study SemSim."""


@reconstruction.command()
@STORE
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="Folder to write.")
@assets_option("data")
def export(store: str, out: Path, assets: Path | None) -> None:
    """Write reconstructions as a folder in SemSim's published layout, for `harness train semsim`.

    People's judgements decide where they were imported (`harness annotate import`); elsewhere a classifier's do.
    """
    from imharness.commands import add_assets, console, query
    from imharness_reconstruction.export import recognised, write
    from imharness_reconstruction.recognition import verdicts

    if assets is not None:
        add_assets(assets)
    store_query = query(store, TRACK)
    votes = verdicts(store_query)
    rows = store_query(votes) if votes else {}
    judged = recognised(rows) if rows else {}
    count = write(out, rebuilt_in(store), judged)
    who = "; ".join(sorted(set(rows["who"]))) if rows else "nobody was asked"
    share = sum(judged.values()) / max(1, len(judged))
    console.say(f"{count} reconstructions in {out}; {share:.0%} recognised ({who})")


@reconstruction.command()
@STORE
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="Folder to write.")
def plots(store: str, out: Path) -> None:
    """Draw the leakage of protected models by each metric against the share of recognised reconstructions."""
    from imharness.commands import console, query
    from imharness.errors import UsageError
    from imharness_reconstruction.plots import scatter
    from imharness_reconstruction.tables import leakages, studies_of

    store_query = query(store, TRACK)
    studies = studies_of(leakages(store_query)) if "leakage" in store_query.steps else []
    if not studies:
        raise UsageError(f"store {store} has no attack with at least six judged models.")
    for file in scatter(studies, out):
        console.say(str(file))


@reconstruction.command()
@STORE
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Given several times, that is twice. Default: psnr and semsim.",
)
@click.option("--count", type=click.IntRange(1), default=5, show_default=True, metavar="N", help="Originals to draw.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="Folder to write.")
def disagreement(store: str, metrics: tuple[str, ...], count: int, out: Path) -> None:
    """Draw the originals whose reconstructions two metrics order most differently."""
    from imharness.commands import component, console, query
    from imharness.errors import UsageError
    from imharness_reconstruction.disagreement import disagreements, draw

    names = metrics or ("psnr", "semsim")
    if len(names) != 2:
        raise UsageError("two metrics can disagree: give --metric twice.")
    first, second = (component("metric", name).label for name in names)
    store_query = query(store, TRACK)
    most = disagreements(store_query, first, second)[:count]
    if not most:
        raise UsageError(
            f"store {store} has no original with three reconstructions that {first} and {second} measured."
        )
    for case, file in zip(most, draw(most, rebuilt_in(store), store_query, (first, second), out), strict=True):
        console.say(f"{file}: {case.name}, tau {case.tau:.2f}")


@reconstruction.command()
@click.option(
    "--dataset",
    default="harness/thumbnails",
    show_default=True,
    metavar="NAME",
    help="Data set with train and test parts.",
)
@click.option(
    "--architecture", default="lenet", show_default=True, metavar="NAME", help="As in `harness train classifier`."
)
@click.option(
    "--weights",
    type=click.Path(path_type=Path, exists=True),
    required=True,
    metavar="FILE",
    help="A half-trained classifier.",
)
@click.option(
    "--policies", type=click.IntRange(2), default=200, show_default=True, metavar="N", help="Random policies to score."
)
@click.option(
    "--images", type=click.IntRange(2), default=32, show_default=True, metavar="N", help="Use the first N images."
)
@click.option("--show", type=click.IntRange(1), default=10, show_default=True, metavar="N", help="Policies to print.")
@seed_option()
@device_option()
@json_option()
def search(
    dataset: str,
    architecture: str,
    weights: Path,
    policies: int,
    images: int,
    show: int,
    seed: int,
    device: str,
    as_json: bool,
) -> None:
    """Search transformation policies for the defense `ats`; train the classifier for a few epochs first.

    \b
    harness train classifier --architecture lenet --epochs 5 --learning-rate 0.05
    harness reconstruction search --weights trained/classifier.safetensors
    """
    import numpy as np
    import torch

    from imharness.commands import console, device_of, find
    from imharness.data import generator
    from imharness_reconstruction.policy_search import candidates
    from imharness_reconstruction.policy_search import search as searched

    where = device_of(device)
    data = find("dataset", dataset).build(where).first(images)  # type: ignore[attr-defined]
    x, y = data.load(list(range(len(data)))).to(where), torch.from_numpy(np.asarray(data.columns["label"])).long()
    model = find("model", f"saved-classifier[architecture={architecture},weights={weights}]")
    whole = find("dataset", dataset).build(where)  # type: ignore[attr-defined]
    classes = int(np.asarray(whole.columns["label"]).max()) + 1
    network = model.build(where)(tuple(x.shape[1:]), classes, generator(0))  # type: ignore[attr-defined]
    with console.progress("policies", visible=not as_json) as advance:
        scored = searched(network, x, y.to(where), candidates(policies, generator(seed)), seed, advance)[:show]
    if as_json:
        console.emit({"policies": [asdict(policy) for policy in scored]})
        return
    rows = [(s.policy, f"{s.privacy:.4f}", f"{s.accuracy:.3f}") for s in scored]
    console.table("Most private policies", ["policy", "privacy score (less is private)", "accuracy score"], rows)
    console.say(f"--defense 'ats[policy={'+'.join(s.policy for s in scored[:2])}]'")


def rebuilt_in(store: str) -> Iterator[Rebuilt]:
    """Yield the reconstructions of a store's latest run with their private images."""
    from imharness.commands import device_of, find, finished
    from imharness.data import ImageSet
    from imharness_reconstruction.export import Rebuilt

    image_sets: dict[str, ImageSet] = {}
    for task in finished(store, TRACK, "reconstruct"):
        label = task.labels["dataset"]
        if label not in image_sets:
            image_sets[label] = find("dataset", label).build(device_of("cpu"))  # type: ignore[attr-defined]
        images = task.output.arrays["images"]
        yield Rebuilt(task.labels, images, image_sets[label].first(len(images)))


@reconstruction.command()
@click.argument("name", type=Choice(["leave-one-out", "unseen-attack", "annotations", "backbone", "loss", "margin"]))
@click.option(
    "--annotations",
    type=click.Path(path_type=Path, exists=True),
    required=True,
    metavar="FOLDER",
    help="Folder that `harness reconstruction export` wrote.",
)
@click.option(
    "--test", default="", metavar="NAME", help="Data set to test on. Default: the first; the others are trained on."
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Compare SemSim with this metric; may be given several times.",
)
@click.option(
    "--backbone",
    type=Choice(["lenet", "resnet18", "resnet50"]),
    default="resnet50",
    show_default=True,
    help="Network that SemSim trains.",
)
@click.option(
    "--epochs", type=click.IntRange(1), default=200, show_default=True, metavar="N", help="Epochs of each training."
)
@click.option(
    "--size", type=click.IntRange(8), default=32, show_default=True, metavar="N", help="Side of the images, px."
)
@seed_option()
@device_option()
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the outcome here (svg, pdf, png).",
)
@click.option(
    "--store",
    default="",
    metavar="FOLDER|s3://BUCKET/PATH|gs://BUCKET/PATH",
    help="Put the outcome into the tables of this store, in place of an earlier one of this study. Default: none.",
)
@assets_option("weights")
@json_option()
def semsim(
    name: str,
    annotations: Path,
    test: str,
    metrics: tuple[str, ...],
    backbone: str,
    epochs: int,
    size: int,
    seed: int,
    device: str,
    plot_file: Path | None,
    store: str,
    assets: Path | None,
    as_json: bool,
) -> None:
    """Train SemSim in several settings and see how it then ranks models.

    It is compared with psnr, mse and ssim-uniform7 unless --metric names others. PSNR counts as at most 58.9 dB, the
    noise of 8 bits, also for identical images.
    """
    from imharness.commands import add_assets, component, console, device_of, find
    from imharness_reconstruction.semsim import SemSimPlan
    from imharness_reconstruction.semsim_studies import STUDIES, Corpus, outcomes, plot, rival

    if assets is not None:
        add_assets(assets)
    where = device_of(device)
    images = component("dataset", f"harness/annotated[path={annotations},size={size}]").build(where)  # type: ignore[attr-defined]
    plan = SemSimPlan(backbone=backbone, epochs=epochs)  # type: ignore[arg-type]
    compared = metrics or ("psnr", "mse", "ssim-uniform7")
    others = {name: rival(find("metric", name), where) for name in compared}  # type: ignore[arg-type]
    results = []
    for setting in STUDIES[name](Corpus.of(images), plan, test):
        with console.progress(setting.name, visible=not as_json) as advance:
            results += outcomes(setting, others, where, seed, advance)
    if plot_file is not None:
        plot(results, f"SemSim: {name}", plot_file)
    if store:
        from imharness.commands import add_external
        from imharness_reconstruction.studied import rows_of

        add_external(store, TRACK, rows_of(name, results), f"semsim-{name}")
    if as_json:
        console.emit({"settings": [asdict(setting) for setting in results]})
        return
    rows = [
        (
            o.setting,
            o.metric,
            *(_decimals(x) for x in (o.rho, o.tau, _size(o.rho), _size(o.tau))),
            o.models,
            o.originals,
        )
        for o in results
    ]
    columns = ["setting", "metric", "rho", "tau", "|rho|", "|tau|", "models", "originals trained on"]
    console.table(f"SemSim: {name}", columns, rows)


def _size(value: float | None) -> float | None:
    return None if value is None else abs(value)


def _decimals(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
