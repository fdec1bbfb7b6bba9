"""Models of a training function that the user gives, and their answers, which are kept for the next time."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import platformdirs

from imharness.errors import UsageError
from imharness.notebook.arguments import place, wrong
from imharness.notebook.digest import Undigestible, digest_of
from imharness.notebook.given import array_of
from imharness.reading.arrays import read_arrays
from imharness.results.identity import digest

AT_ONCE = 1024
"""The number of rows that a model answers at once."""
SHARES_CLOSE = 1e-4


@dataclass(frozen=True)
class Trainer:
    """A training function with its data.

    Args:
        train: ``train(indices, seed) -> model``, for row numbers int64 ``(k,)`` of the data.
        inputs: what models are asked about, indexed by row.
        labels: int64 ``(n,)``.
        folder: where the answers of each model are kept; None: nowhere.
        identity: the digest of function and data.
    """

    train: Callable[[npt.NDArray[np.int64], int], Any]
    inputs: Any
    labels: npt.NDArray[np.int64]
    folder: Path | None
    identity: str

    def answers(self, chosen: npt.NDArray[np.bool_], seed: int) -> npt.NDArray[np.float32]:
        """Return the probabilities ``(n, classes)`` for all rows of a model that is trained on the chosen ones.

        A model that was trained before, on the same rows with the same seed and by the same code, is not trained again.
        """
        file = (
            None
            if self.folder is None
            else self.folder / f"{digest([self.identity, np.packbits(chosen).tobytes().hex(), seed])}.npz"
        )
        if file is not None and file.is_file():
            with suppress(UsageError):  # a file that is damaged is made again
                return read_arrays(file, ["probabilities"])["probabilities"]
        model = self.train(np.flatnonzero(chosen), seed)
        found = asked(model, self.inputs, len(self.labels), int(self.labels.max()) + 1)
        if file is not None:
            _keep(file, found)
        return found


def folder_of(cache: Any) -> Path:
    """Return the folder that the argument ``cache`` means; raises `UsageError`."""
    if cache is None:
        return Path(platformdirs.user_cache_dir("image-privacy-harness")) / "trainings"
    return Path(place("cache", cache, "a folder"))


def trainer_of(train: Any, data: Any, folder: Path) -> Trainer:
    """Return the checked arguments ``train`` and ``data``; raises `UsageError` that names one of them."""
    if not callable(train):
        raise wrong("train", "a function train(indices, seed) that returns a model", train)
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise wrong("data", "a pair (inputs, labels)", data)
    inputs, labels = data[0], array_of("data: labels", data[1])
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) == 0 or labels.min() < 0:
        raise UsageError(f"data: labels must be whole numbers from 0, shape (n,), got {labels.dtype} {labels.shape}.")
    if not hasattr(inputs, "__getitem__") or len(inputs) != len(labels):
        raise UsageError(f"data: there must be as many inputs as labels, {len(labels)}, indexed by row.")
    try:
        identity = digest_of((train, inputs, labels))
    except Undigestible as error:
        warnings.warn(
            f"train: its models are trained anew each time, as it cannot be told apart: {error}", stacklevel=3
        )
        return Trainer(train, inputs, labels.astype(np.int64), None, "")
    return Trainer(train, inputs, labels.astype(np.int64), folder, identity)


def asked(model: Any, inputs: Any, rows: int, classes: int) -> npt.NDArray[np.float32]:
    """Return a model's probabilities for all rows, float32 ``(n, classes)``.

    `model` is a torch module, which is called in evaluation mode, or has a method ``predict_proba``, or is a function
    of inputs. Outputs that are no probabilities count as logits.
    """
    import torch

    if isinstance(model, torch.nn.Module):
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        model.eval()

        def answer(part: Any) -> Any:
            with torch.no_grad():
                return model(torch.as_tensor(part).to(device))
    elif callable(answer := getattr(model, "predict_proba", model)):
        pass
    else:
        raise wrong("train", "a function that returns a torch module, a model with predict_proba, or a function", model)
    parts = [array_of("train: outputs of the model", answer(inputs[i : i + AT_ONCE])) for i in range(0, rows, AT_ONCE)]
    found = np.concatenate(parts).astype(np.float32)
    if found.ndim != 2 or len(found) != rows:
        raise UsageError(f"train: the model must answer with shape ({rows}, classes), got {found.shape}.")
    return _of_all_classes(_as_shares(found), getattr(model, "classes_", None), classes)


def _as_shares(found: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    is_share = ((found >= 0) & (found <= 1)).all() and np.allclose(found.sum(axis=1), 1, atol=SHARES_CLOSE)
    if is_share:
        return found
    weights = np.exp(found - found.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _of_all_classes(found: npt.NDArray[np.float32], known: Any, classes: int) -> npt.NDArray[np.float32]:
    """Return a column for each class, also for those that none of a scikit-learn model's rows had."""
    if known is None or found.shape[1] >= classes:
        return found
    whole = np.zeros((len(found), classes), dtype=np.float32)
    whole[:, np.asarray(known, dtype=np.int64)] = found
    return whole


def _keep(file: Path, found: npt.NDArray[np.float32]) -> None:
    """Write the answers of a model, all at once or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
    with os.fdopen(handle, "wb") as opened:
        np.savez(opened, probabilities=found)
    os.replace(name, file)


def log_odds(probabilities: npt.NDArray[Any], labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return log p_y minus the log of the sum of the others, ``(n,)``."""
    exact = np.asarray(probabilities, dtype=np.float64)
    place = (np.arange(len(labels)), labels)
    true, rest = exact[place].copy(), exact.copy()
    rest[place] = 0
    tiny = np.finfo(np.float32).tiny
    return np.asarray(np.log(np.maximum(true, tiny)) - np.log(np.maximum(rest.sum(axis=1), tiny)))
