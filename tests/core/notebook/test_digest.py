"""The digest of an object changes with what it computes, and with nothing else."""

import collections
import enum
import functools
import importlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from tests.conftest import Harness
from torch import nn

from imharness.notebook.digest import Undigestible, _is_library, digest_of

SCALE = 2.0


def doubled(x: torch.Tensor) -> torch.Tensor:
    return _helper(x) * SCALE


def _helper(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x)


def closing_over(value: object) -> Callable[[torch.Tensor], object]:
    return lambda x: (x, value)


class Scaler:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor


def network(seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))


def test_equal_objects_have_one_digest_and_names_do_not_count() -> None:
    assert digest_of(closing_over(1)) == digest_of(closing_over(1))
    assert digest_of(network(0)) == digest_of(network(0))
    assert digest_of(lambda x: x + 1) == digest_of(lambda x: x + 1)
    assert digest_of(network(0).train()) == digest_of(network(0).eval())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (closing_over(1), closing_over(2)),
        (closing_over(np.zeros(3)), closing_over(np.array([0.0, 0.0, 1e-9]))),
        (closing_over(torch.zeros(3)), closing_over(torch.zeros(1, 3))),
        (closing_over([1, {"a": 2}]), closing_over([1, {"a": 3}])),
        (closing_over(network(0)), closing_over(network(1))),
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: x.sin(), lambda x: x.cos()),
        (network(0), network(1)),
        (Scaler(1.0), Scaler(2.0)),
        (Scaler(1.0).__call__, Scaler(2.0).__call__),
        (functools.partial(doubled, out=1), functools.partial(doubled, out=2)),
        (torch.sin, torch.cos),
        (np.sin, np.cos),
    ],
)
def test_other_code_state_and_closed_over_values_give_another_digest(one: object, other: object) -> None:
    assert digest_of(one) != digest_of(other)


def test_a_digest_follows_globals_and_helpers_that_the_code_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest_of(doubled)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    scaled = digest_of(doubled)
    monkeypatch.setitem(globals(), "_helper", lambda x: torch.cos(x))
    assert len({before, scaled, digest_of(doubled)}) == 3


def test_a_buffer_and_an_attribute_of_a_module_count() -> None:
    one, other, third = network(0), network(0), network(0)
    other[1].running_mean += 1e-6
    third[1].eps = 1e-3
    assert len({digest_of(one), digest_of(other), digest_of(third)}) == 3


def test_what_refers_to_itself_has_a_digest() -> None:
    ring: list[object] = [1]
    ring.append(ring)
    assert digest_of(ring) != digest_of([1, [1]])


@pytest.mark.parametrize("held", [threading.Lock(), (i for i in range(3))])
def test_what_cannot_be_read_is_named(held: object) -> None:
    with pytest.raises(Undigestible, match=rf"<lambda> reads value: a {type(held).__name__} cannot be read"):
        digest_of(closing_over(held))


def scaled(factor: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A decorated function of a library: the wrapper takes over its name and module, not its code."""
    source = f"@functools.wraps(sin)\ndef wrapper(x):\n    return sin(x) * {factor}"
    names = {"functools": functools, "sin": nn.functional.relu, "__name__": __name__}
    exec(source, names)
    return names["wrapper"]  # type: ignore[return-value]


def made(source: str, **names: object) -> object:
    exec(source, names)
    return names["f"]


def member(value: float) -> enum.Enum:
    return enum.Enum("Strength", {"LOW": value}).LOW  # type: ignore[attr-defined,no-any-return]


def with_attribute(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def score(x: torch.Tensor) -> torch.Tensor:
        return x * score.factor  # type: ignore[attr-defined,no-any-return]

    score.factor = value  # type: ignore[attr-defined]
    return score


def with_missing(value: float) -> dict[str, float]:
    kind = type("Weights", (dict,), {"__missing__": lambda self, key: value, "__module__": __name__})
    return kind()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (scaled(2), scaled(3)),
        (made("def f(x): return x"), made("def f(x): return x * 2")),
        (closing_over({"a": 1}.get), closing_over({"a": 2}.get)),
        (closing_over(torch.zeros(2).mul), closing_over(torch.ones(2).mul)),
        (closing_over(nn.Dropout().train()), closing_over(nn.Dropout().eval())),
        (nn.Dropout().train().forward, nn.Dropout().eval().forward),
        (closing_over(member(1.0)), closing_over(member(2.0))),
        (collections.defaultdict(lambda: 1), collections.defaultdict(lambda: 2)),
        (collections.namedtuple("P", "a b")(1, 2), collections.namedtuple("P", "b a")(1, 2)),
        (with_missing(1.0), with_missing(2.0)),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0])),
        (np.eye(2), np.eye(2).view(np.recarray)),
        (with_attribute(1.0), with_attribute(2.0)),
        (torch.tensor([1 + 2j]).imag, torch.tensor([1 + 2j]).conj().imag),
    ],
)
def test_state_that_is_not_in_the_code_counts(one: object, other: object) -> None:
    assert digest_of(one) != digest_of(other)


@pytest.fixture(params=["helpers_of_a_notebook", "imharness_of_a_notebook", "code"])
def helpers(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the user, also by a name that packages of the harness, or of Python, could have."""
    (tmp_path / f"{request.param}.py").write_text("K = 1\ndef score(x):\n    return x * K\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, request.param, raising=False)
    _is_library.cache_clear()
    found = importlib.import_module(request.param)
    monkeypatch.setitem(sys.modules, request.param, found)
    return found


@pytest.mark.parametrize(
    "source",
    [
        "def f(x): return m.score(x)",
        "def f(x):\n    import NAME\n    return NAME.score(x)",
        "def f(x):\n    from NAME import score\n    return score(x)",
        "def f(x): return apply(m, x)\ndef apply(own, x): return own.score(x)",
        "def f(x): return getattr(m, 'sco' + 're')(x)",
        "def made(m): return lambda x: m.score(x)\nf = made(m)",
        "import functools\nf = functools.partial(lambda own, x: own.score(x), m)",
    ],
)
def test_a_module_of_the_user_counts_however_it_is_reached(helpers: ModuleType, source: str) -> None:
    function = made(source.replace("NAME", helpers.__name__), m=helpers)
    before = digest_of(function)
    assert digest_of(function) == before
    helpers.K = 2  # type: ignore[attr-defined]
    assert digest_of(function) != before
    _is_library.cache_clear()


def test_a_script_that_another_module_runs_is_not_taken_for_that_module(
    tmp_path: Path, harness_forked: Harness
) -> None:
    """Of a library's functions of one name only the version would count."""
    lines = [f"print(digest_of(lambda x: x * {factor}))" for factor in (2, 3)]
    (tmp_path / "script.py").write_text("\n".join(["from imharness.notebook.digest import digest_of", *lines, ""]))
    code = (
        "import runpy, sys\n"
        "sys.argv = ['pdb', '-c', 'continue', '-c', 'quit', 'script.py']\n"
        "runpy._run_module_as_main('pdb')\n"  # as `python -m pdb` does
    )
    told = harness_forked("-c", code, cwd=tmp_path)
    found = [line for line in told.stdout.splitlines() if len(line) == 64]
    assert len(found) == len(set(found)) == 2


def test_a_part_of_a_tensor_with_a_stride_has_the_digest_of_its_numbers() -> None:
    assert digest_of(torch.arange(4.0)[::3][1:]) == digest_of(torch.tensor([3.0]))
