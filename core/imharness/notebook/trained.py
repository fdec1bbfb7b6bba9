"""Models of a training function that the user gives, and their answers, which are kept for the next time."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import platformdirs
import torch

from imharness.errors import UsageError
from imharness.notebook.arguments import listed, place, whole, wrong
from imharness.notebook.digest import Undigestible, digest_of
from imharness.notebook.given import array_of
from imharness.reading.arrays import read_arrays
from imharness.reading.text import plain
from imharness.results.identity import digest
from imharness.running.aside import can_copy, in_copies
from imharness.running.numerics import fresh_numerics

AT_ONCE = 1024
"""The number of rows that a model answers at once."""
SHARES_CLOSE = 1e-4
MOST_WORKERS = 256
DEVICE = re.compile(r"cpu|cuda(:\d+)?")


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
        One thread trains, as in a worker, because the last bits of a sum depend on the number of threads.
        """
        kept = self.kept(chosen, seed)
        if kept is not None:
            return kept
        with fresh_numerics():
            model = self.train(np.flatnonzero(chosen), seed)
            found = asked(model, self.inputs, len(self.labels), int(self.labels.max()) + 1)
        if self.folder is not None:
            _keep(self._file(self.folder, chosen, seed), found)
        return found

    def kept(self, chosen: npt.NDArray[np.bool_], seed: int) -> npt.NDArray[np.float32] | None:
        """Return the answers of a model that was trained before, or None; a file that is damaged is made again."""
        if self.folder is not None and (file := self._file(self.folder, chosen, seed)).is_file():
            with suppress(UsageError):
                return read_arrays(file, ["probabilities"])["probabilities"]
        return None

    def _file(self, folder: Path, chosen: npt.NDArray[np.bool_], seed: int) -> Path:
        return folder / f"{digest([self.identity, np.packbits(chosen).tobytes().hex(), seed])}.npz"


@dataclass(frozen=True)
class Training:
    """One model of a training function: the rows it is trained on, bool ``(n,)``, its seed, and its name."""

    chosen: npt.NDArray[np.bool_]
    seed: int
    name: str


@dataclass(frozen=True)
class Workers:
    """Where models are trained.

    Args:
        count: how many processes train at once; one: this process.
        devices: what they are spread over; a training finds its own as ``cuda``.
    """

    count: int = 1
    devices: tuple[str, ...] = ()

    def answers(
        self, own: Trainer, trainings: Sequence[Training], advance: Callable[[int, int], None]
    ) -> list[npt.NDArray[np.float32]]:
        """Return the answers of each model; `advance` is told how many of them are there.

        Workers are copies of this process, which see the function and the data as they are here, and write what their
        models answer into the trainer's folder. A copy is made for each model, so that none sees what another left.
        """
        if self.count == 1:
            found = []
            for training in trainings:
                with _on(self.devices[:1]):
                    found.append(own.answers(training.chosen, training.seed))
                advance(len(found), len(trainings))
            return found
        with TemporaryDirectory() as folder:
            kept = own if own.folder is not None else replace(own, folder=Path(folder))
            self._train(kept, trainings, advance)
            return [kept.answers(training.chosen, training.seed) for training in trainings]

    def _train(self, own: Trainer, trainings: Sequence[Training], advance: Callable[[int, int], None]) -> None:
        """Train what was not trained before."""
        missing = {str(i): each for i, each in enumerate(trainings) if own.kept(each.chosen, each.seed) is None}
        done = len(trainings) - len(missing)
        advance(done, len(trainings))

        def work(item: str) -> str:
            try:
                with _on(self.devices[int(item) % len(self.devices) :][:1] if self.devices else ()):
                    own.answers(missing[item].chosen, missing[item].seed)
            except Exception as error:  # of the user's function, which may raise anything
                return str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
            return ""

        for answer in in_copies(work, list(missing), self.count):
            if problem := (answer.ended and "its worker ended, perhaps for lack of memory") or answer.found:
                said = plain(problem).removeprefix("train: ")
                raise UsageError(f"train: {missing[answer.item].name}: {said}; workers=1 shows where.")
            done += 1
            advance(done, len(trainings))


def workers_of(workers: Any, device: Any) -> Workers:
    """Return what the arguments ``workers`` and ``device`` mean; raises `UsageError`."""
    count = whole("workers", workers)
    if not 1 <= count <= MOST_WORKERS:
        raise UsageError(f"workers: expected a number from 1 to {MOST_WORKERS}, got {count}.")
    names = (
        ()
        if device is None
        else (device,)
        if isinstance(device, str)
        else tuple(listed("device", device, "a name or a list"))
    )
    for name in names:
        if not (isinstance(name, str) and DEVICE.fullmatch(name)):
            raise wrong("device", "cpu, cuda, cuda:N, or a list of them", name)
    if count > 1 and not can_copy():
        raise UsageError("workers: this system cannot copy a process, as Linux can; leave workers out.")
    used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    if count > 1 and used and names != ("cpu",):
        raise UsageError(
            "workers: this process has used the GPU, so that copies of it cannot; audit before anything else touches "
            'CUDA, leave workers out, or train with device="cpu".'
        )
    return Workers(count, names)


def _on(device: Sequence[str]) -> AbstractContextManager[Any]:
    """Make a GPU the one that ``cuda`` means."""
    return torch.cuda.device(device[0]) if device and device[0].startswith("cuda:") else nullcontext()


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
