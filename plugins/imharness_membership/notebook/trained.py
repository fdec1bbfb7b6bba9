"""Trains models with a user's training function, and keeps their answers in a folder for the next time."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from imharness.data import fresh_numerics
from imharness.errors import UsageError
from imharness.extending import (
    address_of,
    array_of,
    can_copy,
    digest,
    in_copies,
    listed,
    output_of,
    refuse_other_orders,
    sha256_of,
    whole,
    wrong,
)
from imharness.files import plain, read_arrays
from imharness_membership.notebook.unsteady import refuse_unsteady
from imharness_membership.probabilities import shares_of

AT_ONCE = 1024
"""The number of rows that a model answers at once."""
ANSWERS = "train: outputs of the model"
"""How messages name the answers of a trained model."""
VERSION = "3"
"""The version of kept answers; with a new version, every model is trained again."""
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
        identity: the digest of the data.
        views: altered copies of the inputs, such as their mirror images, each indexed by row as they are.
    """

    train: Callable[[npt.NDArray[np.int64], int], Any]
    inputs: Any
    labels: npt.NDArray[np.int64]
    folder: Path | None
    identity: str
    views: tuple[Any, ...] = ()

    def answers(self, chosen: npt.NDArray[np.bool_], seed: int) -> npt.NDArray[np.float32]:
        """Return the answers of a model that is trained on the chosen rows, in [0, 1], ``(1 + v, n, classes)``.

        The answers are about all rows, and about v views of all rows. If the folder has answers for the same rows and
        seed, no model is trained. One thread trains, as in a worker, because the last bits of a sum depend on the
        number of threads.
        """
        saved = self.kept(chosen, seed)
        if saved is not None:
            return saved
        with fresh_numerics():
            model = self.train(np.flatnonzero(chosen), seed)
            classes = int(self.labels.max()) + 1
            probabilities = np.stack(
                [asked(model, inputs, len(self.labels), classes) for inputs in (self.inputs, *self.views)]
            )
        if self.folder is not None:
            _keep(self._file(self.folder, chosen, seed), probabilities)
        return probabilities

    def kept(self, chosen: npt.NDArray[np.bool_], seed: int) -> npt.NDArray[np.float32] | None:
        """Return the answers of a model that was trained before, or None without them, or if the file is damaged."""
        if self.folder is not None and (file := self._file(self.folder, chosen, seed)).is_file():
            with suppress(UsageError):
                return read_arrays(file, ["probabilities"])["probabilities"]
        return None

    def _file(self, folder: Path, chosen: npt.NDArray[np.bool_], seed: int) -> Path:
        return folder / f"{digest([self.identity, VERSION, np.packbits(chosen).tobytes().hex(), seed])}.npz"


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
        count: how many processes train at once; 1: this process does.
        devices: the names of devices over which trainings are spread; a training sees its own as ``cuda``.
    """

    count: int = 1
    devices: tuple[str, ...] = ()

    def answers(
        self, trainer: Trainer, trainings: Sequence[Training], advance: Callable[[int, int], None]
    ) -> list[npt.NDArray[np.float32]]:
        """Return the answers of each model; calls `advance` with the number of finished models and of all models.

        Workers are copies of this process, so they have the user's function and data. They write the answers of their
        models into the trainer's folder. Each model has its own copy of the process, so that it sees no changes that
        another training made.
        """
        if self.count == 1:
            results = []
            for training in trainings:
                with _on(self.devices[:1]):
                    results.append(trainer.answers(training.chosen, training.seed))
                advance(len(results), len(trainings))
            return results
        with TemporaryDirectory() as folder:
            saving_trainer = trainer if trainer.folder is not None else replace(trainer, folder=Path(folder))
            self._train(saving_trainer, trainings, advance)
            return [saving_trainer.answers(training.chosen, training.seed) for training in trainings]

    def _train(self, trainer: Trainer, trainings: Sequence[Training], advance: Callable[[int, int], None]) -> None:
        """Train in copies of this process all models whose answers are not in the trainer's folder."""
        missing = {str(i): each for i, each in enumerate(trainings) if trainer.kept(each.chosen, each.seed) is None}
        done = len(trainings) - len(missing)
        advance(done, len(trainings))

        def work(item: str) -> str:
            """Train one model; return a message if it fails, else ""."""
            device = (self.devices[int(item) % len(self.devices)],) if self.devices else ()
            try:
                with _on(device):
                    trainer.answers(missing[item].chosen, missing[item].seed)
            except Exception as error:  # of the user's function, which may raise anything
                return str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
            return ""

        for answer in in_copies(work, list(missing), self.count):
            if problem := (answer.ended and "its worker ended, perhaps for lack of memory") or answer.result:
                message = plain(problem).removeprefix("train: ")
                raise UsageError(f"train: {missing[answer.item].name}: {message}; workers=1 shows where.")
            done += 1
            advance(done, len(trainings))


def workers_of(workers: Any, device: Any) -> Workers:
    """Return what the arguments ``workers`` and ``device`` mean; raises `UsageError`."""
    count = whole("workers", workers)
    if not 1 <= count <= MOST_WORKERS:
        raise UsageError(f"workers: expected a number from 1 to {MOST_WORKERS}, got {count}.")
    if device is None:
        names: tuple[Any, ...] = ()
    elif isinstance(device, str):
        names = (device,)
    else:
        names = tuple(listed("device", device, "a name or a list"))
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
    """Return a block in which ``cuda`` means the given GPU; `device`: one name, or none."""
    return torch.cuda.device(device[0]) if device and device[0].startswith("cuda:") else nullcontext()


def folder_of(cache: Any) -> Path | None:
    """Return the folder that the argument ``cache`` means, if any; raises `UsageError`."""
    return None if cache is None else Path(address_of("cache", cache, "a folder"))


def trainer_of(train: Any, data: Any, folder: Path | None, views: Any = ()) -> Trainer:
    """Return the checked arguments ``train``, ``data`` and ``views``; raises `UsageError` that names one of them."""
    if not callable(train):
        raise wrong("train", "a function train(indices, seed) that returns a model", train)
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise wrong("data", "a pair (inputs, labels)", data)
    refuse_other_orders({"data: inputs": data[0], "data: labels": data[1]})
    inputs, labels = data[0], array_of("data: labels", data[1])
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) == 0 or labels.min() < 0:
        raise UsageError(f"data: labels must be whole numbers from 0, shape (n,), got {labels.dtype} {labels.shape}.")
    if not hasattr(inputs, "__getitem__") or len(inputs) != len(labels):
        raise UsageError(f"data: there must be as many inputs as labels, {len(labels)}, indexed by row.")
    copies = tuple(listed("views", views, "a list of altered copies of the inputs"))
    for copy in copies:
        if not hasattr(copy, "__getitem__") or len(copy) != len(labels):
            raise UsageError(f"views: each must hold as many inputs as data, {len(labels)}, in the same order.")
    identity = digest([_facts_of(each) for each in (labels, inputs, *copies)]) if folder is not None else ""
    return Trainer(train, inputs, labels.astype(np.int64), folder, identity, copies)


def _facts_of(data: Any) -> list[str]:
    """Return what stands for data: type, shape and digest of an array or tensor, nothing for anything else."""
    if isinstance(data, torch.Tensor) and data.layout == torch.strided:
        content = data.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    elif isinstance(data, np.ndarray) and not data.dtype.hasobject:
        content = data.tobytes()
    else:
        return []
    return [str(data.dtype).removeprefix("torch."), str(tuple(data.shape)), sha256_of(content)]


def asked(model: Any, inputs: Any, rows: int, classes: int) -> npt.NDArray[np.float32]:
    """Return a model's answers for all rows, in [0, 1], float32 ``(n, classes)``; see `probabilities.shares_of`.

    `model` is a torch module, which is called in evaluation mode, or has a method ``predict_proba``, or is a function
    of inputs.
    """
    if isinstance(model, torch.nn.Module):
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        model.eval()

        def answer(batch: Any) -> Any:
            with torch.no_grad():
                return output_of(model(torch.as_tensor(batch).to(device)), "train: the model")
    elif callable(answer := getattr(model, "predict_proba", model)):
        pass
    else:
        raise wrong("train", "a function that returns a torch module, a model with predict_proba, or a function", model)
    chunks = [array_of(ANSWERS, answer(inputs[i : i + AT_ONCE])) for i in range(0, rows, AT_ONCE)]
    refuse_unsteady(answer, inputs, chunks[0], "train: the model")
    predictions = np.concatenate(chunks)
    if predictions.ndim != 2 or len(predictions) != rows:
        raise UsageError(f"train: the model must answer with shape ({rows}, classes), got {predictions.shape}.")
    return shares_of(_of_all_classes(predictions, getattr(model, "classes_", None), classes), ANSWERS)


def _of_all_classes(predictions: npt.NDArray[Any], seen_classes: Any, classes: int) -> npt.NDArray[Any]:
    """Return predictions ``(n, classes)``, with zeros for classes that were in none of the training rows.

    A model of scikit-learn has a column for each of its `seen_classes` only.
    """
    if seen_classes is None or predictions.shape[1] >= classes:
        return predictions
    of_all = np.zeros((len(predictions), classes), dtype=np.float32)
    of_all[:, np.asarray(seen_classes, dtype=np.int64)] = predictions
    return of_all


def _keep(file: Path, probabilities: npt.NDArray[np.float32]) -> None:
    """Write the answers of a model, all at once or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
    with os.fdopen(handle, "wb") as opened:
        np.savez(opened, probabilities=probabilities)
    os.replace(name, file)


def log_odds(probabilities: npt.NDArray[Any], labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the log odds of the true class, ``(n,)``: log p_y minus the log of the sum of the other probabilities."""
    exact = np.asarray(probabilities, dtype=np.float64)
    positions = (np.arange(len(labels)), labels)
    true, rest = exact[positions].copy(), exact.copy()
    rest[positions] = 0
    tiny = np.finfo(np.float32).tiny
    return np.asarray(np.log(np.maximum(true, tiny)) - np.log(np.maximum(rest.sum(axis=1), tiny)))
