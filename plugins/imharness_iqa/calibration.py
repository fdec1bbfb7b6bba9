"""Calibrates attacks: finds the value of a parameter at which the mean distortion meets a target.

Guardians of Image Quality, appendix A.3.4: the mean distortion is measured at ten values of the parameter and
interpolated linearly between them.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from imharness.errors import UsageError
from imharness.files import read_json
from imharness.images import BaseAttack

TARGETS = {
    "linf": {"weak": 2 / 255, "medium": 4 / 255, "strong": 8 / 255},
    "ssim": {"weak": 0.9, "medium": 0.8, "strong": 0.75},
    "psnr": {"weak": 35.0, "medium": 30.0, "strong": 25.0},
}
VALUES = 10
REACH = 4.0
"""The ten values range from the weak strength divided by this factor to the strong one times this factor."""
FURTHER = 4
"""The most values tried beyond the ten, each `REACH` times as far as the last, while a target is out of reach."""


class Preset(BaseModel):
    """The strengths of one attack on one metric, with the data they were measured on."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    attack: str
    metric: str
    field: str
    strengths: Mapping[str, float]
    distortion: str
    measured: Sequence[tuple[float, float]] = ()
    """(value, mean distortion) for every value that was tried; the PSNR is "Infinity" where no image was changed."""
    unreached: Sequence[str] = ()
    """Strengths whose target is beyond all measured distortions; they get the value that came nearest."""
    data: str = ""
    images: int = 0
    command: str = ""
    """The command that measured the preset."""


def varied(attack: BaseAttack) -> str:
    """Return the field that sets the strength."""
    return next(iter(attack.info.strengths["weak"]))


def values(attack: BaseAttack) -> list[float]:
    """Return the values of the varied field that are tried first: ten, evenly spaced in their logarithm.

    Values that the field refuses are left out. For an integer field they are rounded, to 1 or more, without duplicates.
    """
    field = varied(attack)
    first, last = (float(attack.info.strengths[s][field]) for s in ("weak", "strong"))
    low, high = (first / REACH, last * REACH) if first < last else (last / REACH, first * REACH)
    spaced = np.geomspace(low, high, VALUES)
    whole = isinstance(attack.info.strengths["weak"][field], int)
    candidates = sorted({max(1, round(v)) for v in spaced}) if whole else spaced.tolist()
    return [v for v in candidates if _accepted(attack, field, v)]


def _accepted(attack: BaseAttack, field: str, value: float) -> bool:
    try:
        attack.with_parameters(**{field: value})
    except ValidationError:
        return False
    return True


def calibrated(attack: BaseAttack, distortion_at: Callable[[BaseAttack], float], metric: str) -> Preset:
    """Return the strengths of an attack on a metric (its id).

    `distortion_at`: attack with some parameters -> its mean distortion.
    """
    field, kind = varied(attack), attack.info.distortion

    def measured(value: float) -> tuple[float, float]:
        return value, distortion_at(attack.with_parameters(**{field: value}))

    tried = [measured(value) for value in values(attack)]
    for _ in range(FURTHER):
        value = _beyond(attack, tried, [*TARGETS[kind].values()])
        if value is None:
            break
        tried = sorted([*tried, measured(value)])
    whole = isinstance(attack.info.strengths["weak"][field], int)
    strengths = {}
    for strength, target in TARGETS[kind].items():
        value = crossing(tried, target)
        strengths[strength] = round(value) if whole else value
    distortions = [distortion for _, distortion in _finite(tried)] or [math.inf]
    unreached = [
        strength for strength, target in TARGETS[kind].items() if not min(distortions) <= target <= max(distortions)
    ]
    return Preset(
        attack=attack.info.id,
        metric=metric,
        field=field,
        strengths=strengths,
        distortion=kind,
        measured=tried,
        unreached=unreached,
    )


def _beyond(attack: BaseAttack, tried: Sequence[tuple[float, float]], targets: Sequence[float]) -> float | None:
    """Return a value to try next, if all distortions so far miss a target: one beyond the values that were tried.

    It lies beyond that end whose distortion is nearer to the target. None if no target is missed, or if the attack
    refuses the value.

    `tried`: pairs of value and mean distortion, by value.
    """
    tried_values, measured = {value for value, _ in tried}, _finite(tried)
    if not measured:
        return None
    distortions = [distortion for _, distortion in measured]
    target = next((t for t in targets if not min(distortions) <= t <= max(distortions)), None)
    if target is None:
        return None
    first, last = measured[0], measured[-1]
    value, _ = min(first, last, key=lambda pair: abs(pair[1] - target))
    value = value * REACH if value == last[0] else value / REACH
    if isinstance(attack.info.strengths["weak"][varied(attack)], int):
        value = max(1, round(value))
    return value if value not in tried_values and _accepted(attack, varied(attack), value) else None


def _finite(tried: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the pairs of value and distortion whose distortion is finite; the PSNR is not if no image was changed."""
    return [pair for pair in tried if math.isfinite(pair[1])]


def mean_distortion(distances: Mapping[str, npt.ArrayLike], kind: str) -> float:
    """Return the mean over images of the distortion `kind`, such as psnr.

    `distances`: each kind of distance by its name, with `linf` among them; one number for each image.

    PSNR is averaged over changed images only; it is infinite where no image was changed.
    """
    numbers, changed = np.asarray(distances[kind], dtype=float), np.asarray(distances["linf"]) > 0
    finite = numbers[np.isfinite(numbers) & (changed | (kind != "psnr"))]
    return float(finite.mean()) if len(finite) else float("inf")


def crossing(tried: Sequence[tuple[float, float]], target: float) -> float:
    """Return the first value at which the line through the measured points meets the target.

    If the line meets the target nowhere, this is the value whose distortion is nearest to the target.
    """
    for (v0, d0), (v1, d1) in pairwise(_finite(tried)):
        if d0 != d1 and min(d0, d1) <= target <= max(d0, d1):
            return v0 + (target - d0) / (d1 - d0) * (v1 - v0)
    return min(tried, key=lambda pair: abs(pair[1] - target))[0]


def read_presets(path: Path) -> list[Preset]:
    """Return the presets of a file; raises `UsageError` when the file does not hold presets."""
    content = read_json(path)
    try:
        return TypeAdapter(list[Preset]).validate_python(content)
    except ValidationError as error:
        raise UsageError(f"{path} is not a file of presets: {str(error).splitlines()[0]}") from None


def write_presets(path: Path, presets: Sequence[Preset]) -> None:
    """Add presets to a file; they replace those of the same attack and metric."""
    old = {(p.attack, p.metric): p for p in (read_presets(path) if path.is_file() else [])}
    old |= {(p.attack, p.metric): p for p in presets}
    path.write_text(
        json.dumps([json.loads(p.model_dump_json()) for p in old.values()], indent=1) + "\n", encoding="utf-8"
    )


def located(name: str) -> Path:
    """Return the file of presets that ship under a name, such as "embedded"; another name is the path of a file."""
    shipped = Path(str(files("imharness_iqa.presets") / f"{name}.json"))
    return shipped if shipped.is_file() else Path(name)


@cache
def published() -> Mapping[tuple[str, str], Preset]:
    """Return the published strengths, by attack and metric."""
    return {(p.attack, p.metric): p for p in read_presets(located("published"))}


def at(attack: BaseAttack, metric: str, strength: str, presets: Mapping[tuple[str, str], Preset]) -> BaseAttack:
    """Return an attack at a strength, as a preset for this metric has it, or else as the attack declares it."""
    preset = presets.get((attack.info.id, metric))
    if preset is None or strength not in preset.strengths:
        return attack.at(strength)
    return attack.with_parameters(**{preset.field: preset.strengths[strength]})
