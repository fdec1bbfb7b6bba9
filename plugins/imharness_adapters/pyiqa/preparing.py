"""Examines a metric of pyiqa before it is used: range of scores, direction, gradients."""

import importlib.metadata
import os
from unittest.mock import patch

import torch

from imharness.data import ImageDataset
from imharness.errors import ContractError
from imharness_adapters.pyiqa.metrics import Prepared, configurations, record
from imharness_vision.offline import WEIGHTS_ONLY

BATCH = 8
NOISE = 0.1
"""The standard deviation of noise that a full-reference metric must rate as worse, for images in [0, 1]."""


NETWORKING = ("urllib", "http", "requests", "httpx", "huggingface_hub", "socket", "ssl")
"""The packages whose errors say that something could not be fetched."""


def why(error: BaseException) -> str:
    """Return in one line why a metric is not prepared: its weights cannot be fetched, or what the error says."""
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__module__.partition(".")[0] in NETWORKING or isinstance(cause, ConnectionError | TimeoutError):
            return (
                "its weights are not on this machine, and cannot be fetched: there is no connection to where they are. "
                "Run this command once with a connection; runs need none"
            )
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split()) or type(error).__name__


def prepared_on(name: str, dataset: ImageDataset, count: int, device: torch.device) -> Prepared:
    """Create a metric, which fetches its weights, score images of a data set, and keep the record of it.

    With a reference, images are compared with themselves and with a noisy copy. Raises `ContractError` where scores are
    not finite, or where the direction that pyiqa states is wrong.
    """
    import pyiqa

    with patch.dict(os.environ, WEIGHTS_ONLY):
        metric = pyiqa.create_metric(name, device=device, as_loss=True, loss_reduction="none").eval()
    images = dataset.build(torch.device("cpu"))
    chosen = images.at(range(0, len(images), -(-len(images) // count)))
    compares, score_chunks = name in configurations("FR"), []
    differentiable = False
    for batch in chosen.batches(BATCH):
        pixels = chosen.load(batch).to(device)
        noisy = (
            pixels + NOISE * torch.randn(pixels.shape, generator=torch.Generator().manual_seed(0)).to(device)
        ).clamp(0, 1)
        leaf = (noisy if compares else pixels).requires_grad_(True)
        scores = metric(leaf, pixels) if compares else metric(leaf)
        if not differentiable and scores.requires_grad:
            (slope,) = torch.autograd.grad(scores.sum(), leaf, allow_unused=True)
            differentiable = slope is not None and bool(torch.isfinite(slope).all() and (slope != 0).any())
        score_chunks.append(scores.detach().flatten().float().cpu())
        if compares:
            with torch.no_grad():
                score_chunks.append(metric(pixels, pixels).flatten().float().cpu())
            sign = -1 if configurations("FR")[name].get("lower_better") else 1
            if bool((sign * score_chunks[-1] < sign * score_chunks[-2]).any()):
                raise ContractError(f"pyiqa:{name}: an image is farther from itself than a noisy copy of it is")
    scores = torch.cat(score_chunks)
    if len(scores) != len(chosen) * (1 + compares) or not bool(torch.isfinite(scores).all()):
        raise ContractError(f"pyiqa:{name} gives no finite score for each image")
    preparation = Prepared(
        pyiqa=importlib.metadata.version("pyiqa"),
        lower=float(scores.min()),
        upper=float(scores.max()),
        differentiable=differentiable,
        data=dataset.label,
        images=len(chosen),
    )
    path = record(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(preparation.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return preparation
