"""The embedded iqa defenses in the sandbox, compared with the same defenses in this process."""

import importlib.metadata
import importlib.util
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.timing import Line, best_of
from imharness.components.registry import installed
from imharness.contracts.call import checked
from imharness.contracts.component import Component
from imharness.contracts.purification import Purification
from imharness.contracts.randomness import ImageRng, generator
from imharness.errors import Unavailable
from imharness.planning.profiles import load_profile
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.jail import GuestSpec, require_sandbox
from imharness_submissions.sandbox.proxies import offer_of

SIZE, IMAGES, BATCHES = 112, 16, 4
"""Height and width of the images, px; images of a batch; batches of a task."""
GOAL = 1.5
"""How many times as long as in this process the defenses may take in the sandbox."""
DISTRIBUTION = "image-privacy-harness"


def lines() -> list[Line]:
    """Return the time of all defenses together, first of single calls, then of whole tasks, as a ratio."""
    what = f"embedded iqa defenses in the sandbox, {IMAGES} images of {SIZE}x{SIZE}: times the time in this process"
    whole = f"the same as tasks of {BATCHES} batches, clean and attacked, sessions and repeated calls counted"
    try:
        require_sandbox()
    except Unavailable as error:
        return [Line(f"the {what}", f"unavailable: {error}", f"<= {GOAL:g}x", True)]
    with tempfile.TemporaryDirectory() as folder:
        guest = Guest(GuestSpec(DISTRIBUTION, _laid_out(Path(folder)), threads=torch.get_num_threads()))
        try:
            pairs = list(_pairs(guest))
            calls = [Seconds(_call_s(here), _call_s(inside, guest)) for here, inside in pairs]
            tasks = [Seconds(_task_s(here), _task_s(inside, guest)) for here, inside in pairs]
        finally:
            guest.kill()
    return [_line(f"{len(calls)} {what}", calls), _line(whole, tasks)]


class Seconds(NamedTuple):
    """The time of one defense in this process and in the sandbox, s."""

    here: float
    inside: float


def _line(what: str, times: list[Seconds]) -> Line:
    """Return the ratio of the sums, the median of the single ratios, and the median of the added time."""
    total = sum(pair.inside for pair in times) / sum(pair.here for pair in times)
    each = [pair.inside / pair.here for pair in times]
    added = statistics.median(pair.inside - pair.here for pair in times)
    text = f"{total:.2f}x (median of each {statistics.median(each):.2f}x, adds {1000 * added:.1f} ms)"
    return Line(what, text, f"<= {GOAL:g}x", total <= GOAL)


def _laid_out(folder: Path) -> Path:
    """Copy the packages of the first-party plugins into a folder, as an installer would."""
    for name in ("imharness_iqa", "imharness_vision", "imharness_embedded", "imharness_perceptual"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        for location in spec.submodule_search_locations or ():
            shutil.copytree(location, folder / name)
    distribution = importlib.metadata.distribution(DISTRIBUTION)
    facts = folder / "image_privacy_harness-0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {DISTRIBUTION}\nVersion: {distribution.version}\n")
    points = "".join(f"{module.rpartition('.')[2]} = {module}\n" for module in sorted(_modules()))
    (facts / "entry_points.txt").write_text(f"[imharness]\n{points}")
    return folder


def _modules() -> set[str]:
    """Return the modules of iqa defenses without those of controls, which cannot be submitted."""
    defenses = [c for c in installed().of_kind("defense") if type(c).__module__.startswith("imharness_iqa.")]
    return {type(c).__module__ for c in defenses} - {type(c).__module__ for c in defenses if c.info.control}


def _pairs(guest: Guest) -> Iterator[tuple[Component, Component]]:
    """Yield every purification of the profile that runs on this machine, and its counterpart in the sandbox."""
    parameters = load_profile("embedded").tracks["harness/iqa"].parameters
    for entry in offer_of(guest).entries(guest):
        inside = entry.component
        here = installed().find("defense", inside.label)[0] if inside.kind == "defense" else None
        if not isinstance(here, Purification):
            continue
        changes = parameters.get(here.info.id, {})
        here, inside = (type(c).model_validate({**c.model_dump(), **changes}) for c in (here, inside))
        if here.is_here():
            yield here, inside


def _call_s(defense: Component, guest: Guest | None = None) -> float:
    """Return the shortest time of a call with one batch, s; `guest` is the sandbox, if the defense runs there."""
    images = torch.rand(IMAGES, 3, SIZE, SIZE, generator=generator(0))
    purify = defense.build(torch.device("cpu"))
    with torch.no_grad():
        seconds = best_of(3, lambda: purify(images, ImageRng(range(IMAGES))), time.perf_counter)
    if guest is not None:
        guest.end_task(failed=False)
    return seconds


def _task_s(defense: Component, guest: Guest | None = None) -> float:
    """Return the time of a task that builds a defense, sends clean and attacked images through it, and ends, s."""
    clean = torch.rand(BATCHES, IMAGES, 3, SIZE, SIZE, generator=generator(0))
    attacked = (clean + 0.02 * torch.randn(clean.shape, generator=generator(1))).clamp(0, 1)

    def task() -> None:
        purify = checked(defense, defense.build(torch.device("cpu")))
        for batch in range(BATCHES):
            seeds = [*range(IMAGES * batch, IMAGES * (batch + 1))] * 2
            purify(torch.cat([attacked[batch], clean[batch]]), ImageRng(seeds))
        if guest is not None:
            guest.end_task(failed=False)

    return best_of(3, task, time.perf_counter)
