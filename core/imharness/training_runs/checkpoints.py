"""The loop that every training runs in: it shows progress, writes checkpoints, and continues interrupted trainings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from imharness.contracts.track import Progress
from imharness.contracts.weight_training import Stateful
from imharness.errors import HarnessError
from imharness.results.disk import write_whole


class CheckpointedLoop:
    """A `Loop` that keeps its state in one safetensors file.

    Args:
        file: the file of the checkpoint, which is always replaced as a whole.
        identity: the identity of the training; a checkpoint of another training raises `HarnessError`.
        rng: the generator of the training, which is part of its state.
        progress: called with (done, total) steps.
    """

    def __init__(self, file: Path, identity: str, rng: torch.Generator, progress: Progress) -> None:
        self._file, self._identity, self._rng, self._progress = file, identity, rng, progress

    def __call__(
        self, components: Mapping[str, Stateful], steps: int, step: Callable[[int], None], *, every: int
    ) -> None:
        """Run the steps that are not done yet, and write a checkpoint after every `every` steps."""
        done = self._restored(components, steps) if self._file.exists() else 0
        self._progress(done, steps)
        for number in range(done, steps):
            step(number)
            self._progress(number + 1, steps)
            if (number + 1) % every == 0 or number + 1 == steps:
                self._save(components, number + 1, steps)

    def discard(self) -> None:
        """Remove the checkpoint, after the training is done and its weights are written."""
        self._file.unlink(missing_ok=True)

    def _save(self, components: Mapping[str, Stateful], done: int, steps: int) -> None:
        tensors = {"rng": self._rng.get_state()}
        shape = _taken_apart({name: component.state_dict() for name, component in components.items()}, tensors)
        about = {"identity": self._identity, "done": str(done), "steps": str(steps), "shape": json.dumps(shape)}
        write_whole(self._file.parent, self._file.name, save(tensors, metadata=about))

    def _restored(self, components: Mapping[str, Stateful], steps: int) -> int:
        try:
            with safe_open(self._file, framework="pt") as file:
                about = file.metadata()
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            complete = about is not None and {"identity", "done", "steps", "shape"} <= about.keys()
        except (OSError, SafetensorError) as error:
            raise HarnessError(f"checkpoint {self._file} cannot be read ({error}); remove it to start again") from error
        if not complete:
            raise HarnessError(f"{self._file} is not a checkpoint of a training; remove it, or choose another --out")
        if about.get("identity") != self._identity:
            raise HarnessError(
                f"{self._file} is the checkpoint of a training with other settings; remove it, or choose another --out"
            )
        if about["steps"] != str(steps):
            raise HarnessError(
                f"{self._file} is the checkpoint of a training of {about['steps']} steps, and this one has {steps}; "
                "remove it, or choose another --out"
            )
        state = _put_together(json.loads(about["shape"]), tensors)
        for name, component in components.items():
            component.load_state_dict(state[name])
        self._rng.set_state(tensors["rng"])
        return int(about["done"])


def _taken_apart(state: object, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Return a nested state as JSON; its tensors are added to `tensors`."""
    if isinstance(state, torch.Tensor):
        name = str(len(tensors))
        tensors[name] = state.detach().cpu().clone().contiguous()
        return {"tensor": name}
    if isinstance(state, Mapping):
        return {"map": [[key, _taken_apart(value, tensors)] for key, value in state.items()]}
    if isinstance(state, list | tuple):
        return {"list": [_taken_apart(value, tensors) for value in state]}
    if state is None or isinstance(state, bool | int | float | str):
        return {"value": state}
    raise HarnessError(f"a checkpoint cannot keep a {type(state).__name__}")


def _put_together(shape: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Any:
    if "tensor" in shape:
        return tensors[shape["tensor"]]
    if "map" in shape:
        return {key: _put_together(value, tensors) for key, value in shape["map"]}
    if "list" in shape:
        return [_put_together(value, tensors) for value in shape["list"]]
    return shape["value"]
