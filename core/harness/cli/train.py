"""`harness train`: run a recipe and write its weights with a model card."""

from __future__ import annotations

import json
from pathlib import Path

import click

from harness import console


@click.command()
@click.argument("name", required=False)
@click.option("--out", type=click.Path(path_type=Path), default="trained", show_default=True, help="Folder to write.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--device", default="auto", show_default=True)
def train(name: str | None, out: Path, seed: int, device: str) -> None:
    """Train the weights of a recipe; without a name, list the recipes."""
    from harness.registry import installed

    registry = installed()
    if name is None:
        rows = [(r.label, r.summary) for r in registry.of_kind("recipe")]
        console.table("Recipes", ["name", "what it trains"], rows)
        return
    import torch
    from safetensors.torch import save

    from harness.contracts.recipe import Recipe
    from harness.errors import UsageError
    from harness.randomness import derive_seed, generator
    from harness.running.device import resolve_devices

    recipe = registry.one("recipe", name)
    if not isinstance(recipe, Recipe):
        raise UsageError(f"{name} is no recipe.")
    place = torch.device(resolve_devices([device])[0])
    data = {
        role: registry.one("dataset", label).build(place)  # type: ignore[attr-defined]
        for role, label in recipe.datasets().items()
    }
    with console.progress(recipe.label) as advance:
        trained = recipe.build(place)(data, generator(derive_seed(seed, recipe.label)), advance)
    out.mkdir(parents=True, exist_ok=True)
    stem = recipe.info.id.partition("/")[2]
    tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in trained.tensors.items()}
    (out / f"{stem}.safetensors").write_bytes(save(tensors))
    card = {"recipe": recipe.ref().model_dump(mode="json"), "seed": seed, "torch": torch.__version__, **trained.card}
    (out / f"{stem}.json").write_text(json.dumps(card, indent=1, sort_keys=True) + "\n")
    console.table(recipe.label, ["figure", "value"], list(trained.card.items()))
    console.say(f"weights: {out / f'{stem}.safetensors'}")
