"""`harness iqa`: calibrate attacks, import results of others, check subsets, export attacked images."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.commands import Group, assets_option, device_option, json_option, seed_option, site_option, store_option

if TYPE_CHECKING:
    from imharness_iqa.adversarial import Attacked


@click.group(cls=Group)
def iqa() -> None:
    """Calibrate attacks, import and export results, and check that a subset does not change the scores."""


@iqa.command()
@click.option(
    "--attack",
    "attacks",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Calibrate this attack; may be given several times.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Attack this metric; may be given several times.",
)
@click.option(
    "--dataset",
    default="harness/severity-ladder[severities=[2],size=72,split=train]",
    show_default=True,
    metavar="NAME",
    help="Images to attack.",
)
@click.option(
    "--tested", multiple=True, metavar="NAME", help="Use no photograph of this data set; may be given several times."
)
@click.option(
    "--images",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    metavar="N",
    help="Use this many images, equally many of each photograph.",
)
@click.option("--fit-dataset", metavar="NAME", help="Data set on which attacks are trained. Default: --dataset.")
@click.option(
    "--fit-images",
    type=click.IntRange(1),
    metavar="N",
    help="Train on its first N images. Default: as many as --images.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="presets.json",
    show_default=True,
    metavar="FILE",
    help="File to write.",
)
@device_option()
@seed_option()
@json_option()
def calibrate(
    attacks: tuple[str, ...],
    metrics: tuple[str, ...],
    dataset: str,
    tested: tuple[str, ...],
    images: int,
    fit_dataset: str | None,
    fit_images: int | None,
    out: Path,
    device: str,
    seed: int,
    as_json: bool,
) -> None:
    """Find the parameter values at which attacks reach the weak, medium and strong distortions.

    The targets are L-infinity 2, 4, 8 /255; SSIM 0.9, 0.8, 0.75; or PSNR 35, 30, 25 dB, as each attack declares.
    If a data set has a split "train", that split is used, so that strengths are not chosen on the reported photographs.
    A run uses the result with the option `presets` of the track. The strength of a trained attack depends on its
    training: give the same parameters and training images as in the run.
    """
    from imharness.commands import console, find
    from imharness.data import fresh_numerics
    from imharness_iqa.calibration import calibrated, write_presets
    from imharness_iqa.disjoint import training_split
    from imharness_iqa.distortion import meter

    data, training = training_split(find("dataset", dataset)), find("dataset", fit_dataset) if fit_dataset else None
    others = [find("dataset", name) for name in tested]
    command = shlex.join(["harness", *sys.argv[1:]])
    trained = {"fit": training, "fit_images": fit_images or images}
    chosen = [(find("attack", attack), find("metric", metric)) for attack in attacks for metric in metrics]
    presets = []
    with fresh_numerics(), console.progress("calibrating", visible=not as_json) as advance:
        for done, (attack, metric) in enumerate(chosen):
            measure = meter(attack, metric, data, images=images, tested=others, **trained, seed=seed, device=device)
            preset = calibrated(attack, measure, metric.info.id)
            presets.append(preset.model_copy(update={"data": data.label, "images": images, "command": command}))
            advance(done + 1, len(chosen))
    write_presets(out, presets)
    if as_json:
        console.emit({"presets": [preset.model_dump(mode="json") for preset in presets]})
        return
    names = ("weak", "medium", "strong")
    rows = [
        (p.attack, p.metric, p.field, p.distortion, *(f"{p.strengths[s]:.6g}{'*' * (s in p.unreached)}" for s in names))
        for p in presets
    ]
    console.table("Strengths", ["attack", "metric", "field", "by", "weak", "medium", "strong"], rows)
    if any(p.unreached for p in presets):
        console.say("* no value that was tried reaches the target; this one comes nearest")
    console.say(f"presets: {out}")


@iqa.command("import")
@click.argument("table", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--map",
    "renamed",
    multiple=True,
    metavar="COLUMN=NAME",
    help="TABLE calls COLUMN by another NAME; may be given several times.",
)
@click.option(
    "--bounds",
    multiple=True,
    metavar="METRIC=WORST:BEST",
    help="Range of a metric that is not installed; may be given several times.",
)
@click.option("--replace", is_flag=True, help="Put the rows in the place of those of an earlier file of this name.")
@store_option()
@site_option("site")
def import_rows(
    table: Path, renamed: tuple[str, ...], bounds: tuple[str, ...], replace: bool, store: str, site: Path
) -> None:
    """Import TABLE, per-image scores that someone else measured; the tables show them, marked external.

    Columns: image, metric, attack, strength, defense, clear, attacked, defended_clear, defended_attacked; mos, adaptive
    (0 or 1) and reference (the photograph that several images were made from) are optional. The defense "none" is no
    defense; without it, and without a run, no entry can be shown to keep anything.
    """
    from imharness.commands import add_external, build_site, component, console
    from imharness_iqa.external import MEASURED, outside_range, read_external

    rows = read_external(table, renamed, bounds, component)
    leaderboard = add_external(store, "harness/iqa", rows, table.stem, measured=MEASURED, replace=replace)
    build_site(store, site)
    console.say(f"{len(rows['name'])} rows of {table} are in the tables, marked external: {site / 'iqa.html'}")
    console.say(f"tasks in the tables: {leaderboard.tasks_done}")
    if outside := outside_range(rows):
        console.say(f"{outside} scores of attacked or defended images lie outside the range of their metric")


@iqa.command("import-images")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--originals",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="The images before the attacks, for a FOLDER without index.csv. Default: those in its index.",
)
@click.option(
    "--mos",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Opinion scores of the originals, a table with image_name and MOS. Default: those in the index, or none.",
)
@click.option(
    "--metric-name",
    "renamed",
    multiple=True,
    metavar="FOLDER=NAME",
    help="A folder of images that were attacked on the metric NAME; may be given several times. "
    "Default: each folder has the name of its metric.",
)
@click.option(
    "--defense",
    "defenses",
    multiple=True,
    default=("*",),
    show_default=True,
    metavar="NAME",
    help="Defense to evaluate; may be given several times.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="attacked.toml",
    show_default=True,
    metavar="FILE",
    help="Profile to write.",
)
def import_images(
    folder: Path,
    originals: Path | None,
    mos: Path | None,
    renamed: tuple[str, ...],
    defenses: tuple[str, ...],
    out: Path,
) -> None:
    """Make a profile that evaluates defenses on the attacked images in FOLDER, which nobody has to attack again.

    FOLDER is what `harness iqa export` wrote, or has [PRESET/]ATTACK/METRIC/IMAGE.png as in the code of Guardians of
    Image Quality; for these --originals is needed, and index.csv is written into FOLDER. The attacks did not know the
    defenses, so the tables have their columns of non-adaptive attacks.
    """
    from imharness.commands import component, console
    from imharness_iqa.attacked_folder import indexed, lossy_files, profile

    listed = indexed(folder, originals, mos, renamed, component)
    named = [component("defense", d).label for d in defenses if d != "*"]
    out.write_text(profile(folder.resolve(), listed, named), encoding="utf-8")
    count = sum(map(len, listed.attacked.values()))
    console.say(f"{count} attacked images of {len(listed.originals)} originals, {len(listed.attacked)} conditions")
    if lossy := lossy_files(folder, listed):
        console.warn(
            f"{len(lossy)} attacked images are JPEG, such as {lossy[0]}, which takes back a part of what attacks did: "
            "the numbers are of what is left; save attacked images as PNG"
        )
    if listed.knowing:
        console.say(f"{listed.knowing} more were attacked with knowledge of a defense, and are left out")
    console.say(f"evaluate them with: {shlex.join(['harness', 'run', '--track', 'iqa', '--profile', str(out)])}")


@iqa.command()
@store_option()
@click.option(
    "--per-cluster", type=click.IntRange(1), default=5, show_default=True, metavar="N", help="Images per cluster."
)
@json_option()
def sampling(store: str, per_cluster: int, as_json: bool) -> None:
    """Draw up to ten clustered subsets of each data set that share no image, and test whether the draw matters.

    Kruskal-Wallis test over the draws, for f(x), f(x'), f(D(x)) and f(D(x')). A second table is table 5 of the paper:
    D, SROCC, R and SSIM of each metric, fixed black-box attack and purification in each draw.
    """
    from imharness.commands import console, query
    from imharness_iqa.tables.sampling import studies

    tables = studies(query(store, "harness/iqa"), per_cluster)
    if as_json:
        console.emit({"tables": [table.model_dump(mode="json") for table in tables]})
        return
    for table in tables:
        rows = [
            (row.label, *(_shown(row.values[c.key].value, c.decimals) for c in table.columns)) for row in table.rows
        ]
        console.table(table.title, ["score", *(column.label for column in table.columns)], rows)


@iqa.command()
@store_option()
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="New folder to write.")
@click.option(
    "--licence", required=True, metavar="ADDRESS", help="Address of the licence of the images; ask their data sets."
)
@assets_option("data")
def export(store: str, out: Path, licence: str, assets: Path | None) -> None:
    """Write the attacked images of the latest run as a data set: PNG files, index.csv and Croissant metadata."""
    from imharness.commands import add_assets, console
    from imharness.errors import UsageError
    from imharness_iqa.adversarial import write

    if assets is not None:
        add_assets(assets)
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty; name a new folder.")
    console.say(f"{write(out, _attacked(store), licence)} attacked images in {out}")


def _attacked(store: str) -> Iterator[Attacked]:
    """Yield the attacked images of a store's latest run."""
    from imharness.commands import device_of, find, finished
    from imharness_iqa.adversarial import Attacked
    from imharness_iqa.steps import stored_images

    for task in finished(store, "harness/iqa", "attack"):
        images = find("dataset", task.labels["dataset"]).build(device_of("cpu"))  # type: ignore[attr-defined]
        images = images.first(len(task.output.rows["name"]))
        facts = {kind: task.labels[kind] for kind in ("dataset", "metric")}
        facts |= {"attack": str(task.options["method"]), "strength": str(task.options["strength"])}
        facts["knows"] = task.labels.get("defense", "")
        yield Attacked(facts, images, stored_images(images, task.output), task.output.rows["score"].tolist())


def _shown(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:.{decimals}f}"
