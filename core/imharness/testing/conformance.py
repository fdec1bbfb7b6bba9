"""The conformance suite: every check that applies to a component by its contract; each runs on fresh inputs."""

from __future__ import annotations

import functools
import inspect
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Literal

import torch
from pydantic import ValidationError

from imharness.components.registry import checked_offer
from imharness.contracts.component import Component
from imharness.errors import ContractError, HarnessError, PluginError, Unavailable, UsageError
from imharness.testing.devices import on_accelerator, stays
from imharness.testing.placement import ACCELERATOR, MAC, prepare
from imharness.testing.probe import Inputs, Probe, check_bare
from imharness.testing.probes import probe_of
from imharness.testing.usual import again, copied, usual, usual_inputs

SLOW_S = 60.0
"""A check that takes more seconds is skipped with that reason, because the suite is not a benchmark."""
SLOW_AT_BOUND_S = 10.0
"""At a bound of a parameter, which may mean millions of steps, this many seconds without an error are enough."""
IN_PLACE = "keeps every tensor on its device"
BARE = "keeps its contract for inputs that show little"
"""The check with inputs such as a black image, or gradients of zeros; see `Probe.bare`."""
AGAIN_S = 0.01
"""Seconds after which a check that swallowed its interruption, or was importing, is interrupted again."""
IMPORT_S = 120.0
"""How much longer than its limit a check may take while something is imported, s; on a busy machine torch's own
libraries take a minute."""


class Skipped(Exception):
    """A check does not apply, or cannot run here."""


class Late(Skipped):
    """A check took longer than its limit."""


@dataclass(frozen=True)
class CheckResult:
    """The result of a check."""

    component: str
    check: str
    status: Literal["passed", "failed", "skipped"]
    message: str
    seconds: float
    late: bool = False
    """Whether it was skipped because it took longer than its limit."""


@dataclass(frozen=True)
class Trial:
    """One check of one component."""

    component: Component
    check: str
    examine: Callable[[], str]
    limit: float = SLOW_S
    at_bound: bool = False
    """Whether the check passes if there is no error within its limit."""

    @property
    def name(self) -> str:
        """The component's label and the check's name."""
        return f"{self.component.label}: {self.check}"

    def run(self) -> CheckResult:
        """Run the check; any exception of the component makes it fail."""
        start = time.perf_counter()

        def outcome(status: Literal["passed", "failed", "skipped"], message: str, late: bool = False) -> CheckResult:
            return CheckResult(self.component.label, self.check, status, message, time.perf_counter() - start, late)

        try:
            with _limited(self.limit):
                return outcome("passed", self.examine())
        except Late as error:
            if self.at_bound:
                return outcome("passed", f"{error} without an error")
            return outcome("skipped", str(error), late=True)
        except (Skipped, Unavailable) as error:
            return outcome("skipped", str(error))
        except HarnessError as error:
            return outcome("failed", str(error))
        except (Exception, SystemExit) as error:
            return outcome("failed", f"raised {type(error).__name__}: {error}")


def components_of(module: ModuleType) -> list[Component]:
    """Return the components that a module's hook registers; raises `ContractError` if it returns anything else."""
    components: list[Component] = []
    for item in getattr(module, "components", list)():
        try:
            components.append(checked_offer(item))
        except PluginError as error:
            raise ContractError(f"{module.__name__}.components: {error}") from None
    if not components:
        raise ContractError(f"{module.__name__} registers nothing; mark a function such as components with @hookimpl")
    return components


def check_component(component: Component, seed: int = 0) -> list[CheckResult]:
    """Run every check of a component."""
    return [trial.run() for trial in trials(component, seed)]


def trials(component: Component, seed: int = 0) -> list[Trial]:
    """Return every check that applies to a component; the inputs depend on `seed`."""
    trials = [Trial(component, "says what it is", lambda: _metadata(component))]
    probe = probe_of(component, seed)
    if probe is None:
        return trials
    if not component.isolation:
        prepare()
    trials += [Trial(component, name, _if_here(component, check)) for name, check in quick_checks(component, probe)]
    trials += [Trial(component, name, _if_here(component, check)) for name, check in _on_devices(component, probe)]
    for field, value, side in _ends(component):
        bound_check = _if_here(component, functools.partial(_at, component, field, value, probe))
        trials.append(Trial(component, f"works with {field} at its {side} bound", bound_check, SLOW_AT_BOUND_S, True))
    return trials


def _if_here(component: Component, check: Callable[[], str]) -> Callable[[], str]:
    """Return a check that raises `Unavailable` if the component cannot run on this machine."""

    def run() -> str:
        component.require()
        return check()

    return run


def quick_checks(component: Component, probe: Probe) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the checks that take few calls, each after its name; those of one contract alone come last.

    Among the latter are the checks of gradients; see `Probe.own_checks`.
    """
    yield "gives what its contract says", lambda: _gives(probe)
    yield "gives the same again", lambda: _again(component, probe)
    yield "leaves its inputs as they are", lambda: _untouched(probe)
    yield "uses no global randomness, network, process or file", lambda: _quiet(probe)
    if probe.by_row:
        yield "treats each row alone, whatever the batch and its order", lambda: _alone(probe)
    yield BARE, lambda: check_bare(probe)
    for name, check in probe.own_checks():
        yield name, _message(check)


def _on_devices(component: Component, probe: Probe) -> Iterator[tuple[str, Callable[[], str]]]:
    yield IN_PLACE, lambda: stays(component, probe)
    yield "runs on the accelerator too", lambda: _on_real_one(probe)
    yield "time and memory", lambda: _cost(probe)


def _message(check: Callable[[], str | None]) -> Callable[[], str]:
    return lambda: check() or ""


def _metadata(component: Component) -> str:
    if type(component).model_validate(component.ref().parameters) != component:
        raise ContractError("its parameters do not give the same component again; keep them plain data")
    if not component.summary.endswith("."):
        raise ContractError(f"the first line of its docstring is not a sentence: {component.summary!r}")
    for name, field in type(component).model_fields.items():
        if not field.description:
            raise ContractError(f"field {name} has no description; say what it is, with its unit")
    return inspect.cleandoc(type(component).__doc__ or "").partition("\n")[0]


def _gives(probe: Probe) -> str:
    first = usual(probe)
    probe.check(first.result, first.inputs, first.seeds)
    for size in probe.sizes[1:]:
        inputs, seeds = probe.inputs(*size), probe.seeds(size[0])
        probe.check(probe.call(probe.built, inputs, seeds), inputs, seeds)
    return f"sizes {', '.join('x'.join(map(str, size)) for size in probe.sizes)}"


def _again(component: Component, probe: Probe) -> str:
    first = usual(probe)
    inputs, other = copied(first.inputs), probe.build(component)
    for second in (again(probe)[0], probe.tensor(other, inputs, first.seeds)):
        if not torch.equal(first.flat, second):
            worst = float((first.flat - second).abs().max())
            raise ContractError(f"the same inputs and the same seed gave other results, off by up to {worst:.3g}")
    return ""


def _untouched(probe: Probe) -> str:
    if not usual(probe).untouched:
        raise ContractError("an input was changed in place; work on a copy")
    return ""


def _quiet(probe: Probe) -> str:
    did = usual(probe).did
    if did:
        raise ContractError("; ".join(did))
    return ""


def _alone(probe: Probe) -> str:
    first = usual(probe)

    def results(inputs: Inputs, seeds: Sequence[int], rows: Sequence[int]) -> torch.Tensor:
        return probe.tensor(probe.built, probe.picked(inputs, rows), [seeds[i] for i in rows])

    n, reversed_rows = len(first.seeds), list(range(len(first.seeds)))[::-1]
    reordered = results(first.inputs, first.seeds, reversed_rows)[reversed_rows]
    with_copies, their_seeds = probe.with_copies(first.inputs), [*first.seeds, *first.seeds]
    each_alone = torch.cat([results(with_copies, their_seeds, [i]) for i in range(2 * n)])
    beside_copies = probe.tensor(probe.built, with_copies, their_seeds)
    for what, wanted, other in (
        ("alone", first.flat, each_alone[:n]),
        ("in another order", first.flat, reordered),
        ("beside a near copy", each_alone, beside_copies),
    ):
        off = float((wanted - other).abs().max())
        if off > probe.tolerance * max(1.0, float(wanted.abs().max())):
            raise ContractError(f"a row gives another result {what} than otherwise, off by up to {off:.3g}")
    return ""


def _ends(component: Component) -> Iterator[tuple[str, float | int, str]]:
    """Yield each bound of the numeric fields: the field, the value and the side."""
    schema = type(component).model_json_schema().get("properties", {})
    for name, facts in schema.items():
        for key, side in (("minimum", "lower"), ("maximum", "upper")):
            if key in facts and facts.get("type") in ("integer", "number"):
                value = facts[key]
                yield name, int(value) if facts["type"] == "integer" else float(value), side


def _at(component: Component, field: str, value: float, probe: Probe) -> str:
    """Check what a component returns with a value of a field; it may refuse the value when it is set or built."""
    try:
        changed = component.with_parameters(**{field: value})
    except ValidationError as error:
        return f"{field} = {value:g} is refused: {error.errors()[0]['msg']}"
    try:
        if changed == component:  # it has this value already, and its first call serves several checks
            first = usual(probe)
            probe.check(first.result, first.inputs, first.seeds)
        else:
            at_bound = type(probe)(changed, probe.seed)
            built, (inputs, seeds) = at_bound.build(changed), usual_inputs(at_bound)
            at_bound.check(at_bound.call(built, inputs, seeds), inputs, seeds)
    except UsageError as error:
        return f"{field} = {value:g} is refused: {error}"
    return f"{field} = {value:g}"


def _on_real_one(probe: Probe) -> str:
    if torch.cuda.is_available():
        return on_accelerator(probe, ACCELERATOR)
    if torch.backends.mps.is_available():
        return on_accelerator(probe, MAC)
    raise Skipped("no accelerator on this machine")


def _cost(probe: Probe) -> str:
    first, (_, seconds) = usual(probe), again(probe)
    rows = len(first.seeds)
    grown = "is not known here" if first.mebibytes is None else f"grew by {first.mebibytes:.0f} MiB"
    return f"{1000 * seconds / rows:.2f} ms for each of {rows} rows; peak memory {grown}"


def _is_import(frame: FrameType | None) -> bool:
    """Say whether a frame is part of an import."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib."):
        frame = frame.f_back
    return frame is not None


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise `Late` if the block takes longer; only the main thread can be interrupted, and on Windows nothing can.

    A signal interrupts the block. In some cases, that alone is not enough:

    - The block turns `Late` into another error, as torch does while it loads weights: then `Late` is raised instead.
    - Python drops `Late`, as in the callback of a weak reference: then the block is interrupted again.
    - Something is being imported: it gets up to `IMPORT_S` more. Half a library would stay, and break other checks.
    - The block had switched gradients off: afterwards they are recorded as before.
    """
    if not hasattr(signal, "SIGALRM"):
        yield
        return
    interruption = Late(f"took longer than {seconds:g} s")
    gradients_before, hook_before = torch.is_grad_enabled(), sys.unraisablehook
    started = time.perf_counter()

    def late(signum: int, frame: FrameType | None) -> None:
        if time.perf_counter() - started < seconds + IMPORT_S and _is_import(frame):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
            return
        raise interruption

    def dropped(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_value is interruption:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        else:
            hook_before(unraisable)

    try:
        handler_before = signal.signal(signal.SIGALRM, late)
    except ValueError:  # not the main thread
        yield
        return
    sys.unraisablehook = dropped
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Exception:
        if interruption.__traceback__ is not None:  # it was raised, even if a library replaced it
            raise interruption from None
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler_before)
        sys.unraisablehook = hook_before
        torch.set_grad_enabled(gradients_before)


def failed(outcomes: Sequence[CheckResult]) -> list[CheckResult]:
    """Return the checks that failed."""
    return [outcome for outcome in outcomes if outcome.status == "failed"]
