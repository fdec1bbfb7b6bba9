"""Metrics of pyiqa 0.1 by their names there: ``pyiqa:musiq`` scores images alone, ``pyiqa-fr:topiq_fr`` compares them.

Chen & Mo, "IQA-PyTorch" (2022). Mode and direction are those that pyiqa states. A metric must be prepared once on each
machine, by `harness pyiqa prepare NAME`: that fetches its weights, measures the range of its scores on natural images
(those that pyiqa states are rough) and whether gradients reach the images, and keeps what it found. A run never
downloads. Files of weights are opened as weights only.

pyiqa's licence (PolyForm Noncommercial, NTU S-Lab) forbids commercial use, and single metrics may have stricter ones.
"""

import functools
import hashlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from imharness.data import cache_folder
from imharness.errors import Unavailable, UsageError
from imharness.files import read_json
from imharness.images import (
    FullReferenceMetric,
    FullReferenceScore,
    Images,
    MetricInfo,
    NoReferenceMetric,
    NoReferenceScore,
    Paper,
    Scores,
    hookimpl,
)
from imharness_vision.libraries import InfoFrom, require_library
from imharness_vision.offline import offline

LABEL = "pyiqa, non-commercial licence"
RUN_CODE = {"qalign", "qalign_8bit", "qalign_4bit", "compare2score"}
"""The metrics that download Python code with their weights and run it."""
LEFT_OUT = {"fid", "sfid", "fid_dinov2", "inception_score", "clipscore", "fgresq_pair", *RUN_CODE}
"""The metrics that compare sets of images, need a text, return several numbers, or run code that they download."""
PAPER = Paper(
    title="IQA-PyTorch: PyTorch Toolbox for Image Quality Assessment",
    authors="Chen & Mo",
    year=2022,
    url="https://github.com/chaofengc/IQA-PyTorch",
)


class Prepared(BaseModel):
    """The findings of `harness pyiqa prepare`: the range of scores on `images` images of `data`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pyiqa: str
    lower: float
    upper: float
    differentiable: bool
    data: str
    images: int


def is_here() -> bool:
    """Return whether pyiqa is installed, without importing it."""
    return importlib.util.find_spec("pyiqa") is not None


@functools.cache
def configurations(mode: str) -> Mapping[str, Mapping[str, Any]]:
    """Return pyiqa's configurations of a mode, "NR" or "FR", by name, without importing all of the package."""
    package = importlib.util.find_spec("pyiqa")
    if package is None or not package.submodule_search_locations:
        return {}
    path = Path(package.submodule_search_locations[0]) / "default_model_configs.py"
    spec = importlib.util.spec_from_file_location("pyiqa_default_model_configs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    every = module.DEFAULT_CONFIGS.items()
    return {name: facts for name, facts in every if facts["metric_mode"] == mode and name not in LEFT_OUT}


def record(name: str) -> Path:
    """Return the file that keeps the findings about a metric."""
    return cache_folder().parent / "pyiqa" / f"{name}.json"


def prepared(name: str) -> Prepared | None:
    """Return the findings about a metric on this machine, or None."""
    path = record(name)
    return _read(path, path.stat().st_mtime_ns) if name and path.is_file() else None


@functools.lru_cache(maxsize=256)
def _read(path: Path, modified: int) -> Prepared | None:
    try:
        return Prepared.model_validate(read_json(path))
    except (UsageError, ValidationError):
        return None


def _facts(metric: "_Pyiqa") -> MetricInfo:
    config, preparation = configurations(metric.mode).get(metric.name, {}), prepared(metric.name)
    bounds = (preparation.lower, preparation.upper) if preparation and preparation.lower < preparation.upper else None
    return MetricInfo(
        id=metric.id,
        version="1",
        labelled=LABEL,
        paper=PAPER,
        bounds=bounds,
        higher_means="worse_quality" if config.get("lower_better") else "better_quality",
        differentiable=preparation is None or preparation.differentiable,
    )


class _Pyiqa(BaseModel):
    """The base of both kinds of metrics."""

    id: ClassVar[str]
    mode: ClassVar[str]
    other: ClassVar[str]
    """The component that has the metrics of the other mode."""
    address: ClassVar[str] = "name"
    name: str = Field(default="", description="The metric's name in pyiqa.")

    @field_validator("name")
    @classmethod
    def _configured(cls, name: str) -> str:
        if name and is_here() and name not in configurations(cls.mode):
            elsewhere = name in configurations("FR" if cls.mode == "NR" else "NR")
            raise ValueError(
                f"write {cls.other}:{name}" if elsewhere else f"pyiqa has no such metric of mode {cls.mode}"
            )
        return name

    def variants(self) -> list[Any]:
        """Return every metric of this mode."""
        return [type(self)(name=name) for name in configurations(self.mode)]

    def require(self) -> None:
        """Raise `Unavailable` without the library, without a name, or before the metric is prepared."""
        require_library("pyiqa")
        if not self.name:
            raise Unavailable("no metric of pyiqa is named", f"--metric {self.id.partition('/')[2]}:NAME")
        preparation = prepared(self.name)
        if preparation is None or preparation.pyiqa != importlib.metadata.version("pyiqa"):
            raise Unavailable(f"{self.name} of pyiqa is not prepared", f"harness pyiqa prepare {self.name}")

    def content(self) -> str:
        """Return a digest of the findings when the metric was prepared."""
        preparation = prepared(self.name)
        return hashlib.sha256(preparation.model_dump_json().encode()).hexdigest() if preparation else ""

    def network(self, device: torch.device) -> torch.nn.Module:
        """Return the frozen network of pyiqa; raises `Unavailable` where it would download something, or needs more."""
        import pyiqa

        try:
            with offline(f"harness pyiqa prepare {self.name}"), redirect_stdout(sys.stderr):  # it says what it loads
                return pyiqa.create_metric(self.name, device=device, as_loss=True).eval().requires_grad_(False).net
        except ModuleNotFoundError as error:
            lacks = error.name or "another package"
            remedy = "pip install 'setuptools<81'" if lacks == "pkg_resources" else f"pip install {lacks}"
            raise Unavailable(f"{self.name} of pyiqa needs {lacks}, which is not installed", remedy) from error


def _info(id: str) -> InfoFrom:
    return InfoFrom(MetricInfo(id=id, version="1", higher_means="better_quality", labelled=LABEL, paper=PAPER), _facts)


class Pyiqa(_Pyiqa, NoReferenceMetric):
    """No-reference metric of the library pyiqa by its name there (non-commercial licence)."""

    id, mode, other = "harness/pyiqa", "NR", "pyiqa-fr"
    info = _info("harness/pyiqa")

    def build(self, device: torch.device) -> NoReferenceScore:
        """Return the metric, with gradients."""
        network = self.network(device)

        def score(images: Images) -> Scores:
            return _first(network(images)).flatten().float()

        return score


class PyiqaFr(_Pyiqa, FullReferenceMetric):
    """Full-reference metric of the library pyiqa by its name there (non-commercial licence)."""

    id, mode, other = "harness/pyiqa-fr", "FR", "pyiqa"
    info = _info("harness/pyiqa-fr")

    def build(self, device: torch.device) -> FullReferenceScore:
        """Return the metric, with gradients."""
        network = self.network(device)

        def score(images: Images, reference: Images) -> Scores:
            return _first(network(images, reference)).flatten().float()

        return score


def _first(output: Any) -> torch.Tensor:
    return output[0] if isinstance(output, tuple) else output


@hookimpl
def components() -> list[NoReferenceMetric | FullReferenceMetric]:
    """Return one metric of each mode, by which the others are addressed; they say what is missing."""
    return [Pyiqa(name="musiq"), PyiqaFr(name="topiq_fr")]
