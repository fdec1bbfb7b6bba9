"""`harness train`: train weights, or a metric with a training defense, and write them with a model card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.cli import console
from imharness.cli.options import assets_option, device_option, json_option, seed_option
from imharness.errors import UsageError

if TYPE_CHECKING:
    from imharness.components.registry import Registry


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("name", required=False)
@click.option("--metric", metavar="NAME", help="Metric to apply a training defense to. Default: none.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder to write to. Default: ./trained, or with --metric the folder where runs look for such weights.",
)
@seed_option()
@device_option()
@assets_option()
@json_option()
@click.pass_context
def train(
    ctx: click.Context,
    name: str | None,
    metric: str | None,
    out: Path | None,
    seed: int,
    device: str,
    assets: Path | None,
    as_json: bool,
) -> None:
    """Train weights, or a metric with a training defense; without NAME, list both kinds of training.

    Further options are fields of the training, or of the metric's training plan, such as --epochs 3. To continue an
    interrupted training from its last checkpoint, repeat the command.
    """
    import torch

    from imharness.components.registry import installed
    from imharness.contracts.assets import add_folder, cache_folder
    from imharness.running.device import resolve_devices
    from imharness.training_runs.engine import by_defense, by_name
    from imharness.training_runs.engine import train as run_training

    if assets is not None:
        add_folder(assets)
    registry = installed()
    if name is None:
        _list(registry)
        return
    changes = _changes(ctx.args)
    training = by_defense(registry, name, metric, changes) if metric else by_name(registry, name, changes)
    folder = out or (cache_folder() / "trained" if metric else Path("trained"))
    torch_device = torch.device(resolve_devices([device])[0])
    with console.progress(training.title, visible=not as_json) as advance:
        facts = run_training(training, registry, device=torch_device, seed=seed, out=folder, progress=advance)
    if as_json:
        console.emit(facts)
        return
    console.table(training.title, ["figure", "value"], list(facts["card"].items()))
    console.say(f"weights: {facts['weights']}")


def _list(registry: Registry) -> None:
    from imharness.training_runs.engine import training_defenses

    console.table(
        "Trainings of weights: harness train NAME",
        ["name", "what it trains"],
        [(r.label, r.summary) for r in registry.of_kind("weight-training")],
    )
    console.table(
        "Training defenses: harness train NAME --metric METRIC",
        ["name", "what it does"],
        [(d.label, d.summary) for d in training_defenses(registry)],
    )


def _changes(words: Sequence[str]) -> dict[str, str]:
    """Return ``--some-field value ...`` as field -> value."""
    names, values = words[::2], words[1::2]
    if len(names) != len(values) or not all(name.startswith("--") for name in names):
        raise UsageError(f"cannot read {' '.join(words)!r}; write --field value.")
    return {name[2:].replace("-", "_"): value for name, value in zip(names, values, strict=True)}
