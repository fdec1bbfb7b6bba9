"""Every argument of every notebook function: a value of the wrong type is refused in one line that names it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import imharness as ih
from imharness.documents.comparisons import Comparison, Condition
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.errors import UsageError
from imharness.notebook import offers

WRONG = {"None": None, "int": 5, "list": [1], "str": "nowhere at all", "dict": {1: 2}, "object": object()}
"""Values that are tried for every argument; `FITS` lists where one of them is right."""
MANY = torch.arange(200)
OUTPUTS = {"probabilities": np.full((200, 2), 0.5), "labels": MANY % 2, "member": MANY < 100}
MODEL = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2))
TABLE = Table(
    id="main",
    title="",
    caption="",
    entry="defense",
    columns=(ColumnSpec(key="d", label="D", description=""),),
    rows=(Row(label="a/b", values={"d": Value(value=1.0)}),),
    ranked_by="d",
)
COMPARED = Comparison(
    id="d",
    title="D",
    entry="defense",
    measure="D",
    description="",
    better="lower",
    entries=("a/b",),
    conditions=(Condition(facets={}, units=0),),
    unit_sets=(("u",),),
    tests=1,
    alpha=0.05,
)
ROWS = {"evaluate": lambda: {"score": np.zeros(2)}}
RESULT = ih.Result("a test", [TABLE], ROWS, paired=[(COMPARED, np.zeros((1, 1), np.float32))])
AUDIT = ih.Audit("a test", [TABLE], details=None)  # type: ignore[arg-type]


def score_of(images: torch.Tensor) -> torch.Tensor:
    return images.mean(dim=(1, 2, 3))


def moved(images: torch.Tensor, target: object) -> torch.Tensor:
    return images


FINE: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {  # name of a function -> the function, right arguments
    "metric": (ih.metric, {"obj": score_of, "bounds": (0, 1), "higher_means": "better_quality"}),
    "defense": (ih.defense, {"fn": score_of, "differentiable": True}),
    "attack": (ih.attack, {"fn": moved, "access": "black_box", "norm": "linf", "radius": 0.1}),
    "evaluator": (ih.evaluator, {"fn": score_of}),
    "evaluate": (lambda objects, **further: ih.evaluate(objects, **further), {"objects": "flip"}),
    "audit": (ih.audit, {"target": OUTPUTS}),
    "audit_one_run": (ih.audit_one_run, {"scores": MANY, "included": MANY % 2}),
    "reconstruct": (
        ih.reconstruct,
        {"gradients": [torch.ones(2, 192), torch.ones(2)], "model": MODEL, "shape": (3, 8, 8)},
    ),
    "run": (ih.run, {}),
    "score": (ih.score, {"metric": "psnr", "images": np.ones((1, 3, 8, 8)), "reference": np.ones((1, 3, 8, 8))}),
    "compare": (ih.compare, {"a": RESULT, "b": RESULT}),
    "load": (ih.load, {"store_or_site": "."}),
    "load_leaderboard": (ih.load_leaderboard, {"site": "."}),
    "table": (RESULT.table, {}),
    "rows": (RESULT.rows, {}),
    "entry": (RESULT.__getitem__, {}),
    "to_dataframe": (RESULT.to_dataframe, {}),
    "to_latex": (RESULT.to_latex, {}),
    "to_markdown": (RESULT.to_markdown, {}),
    "plot": (RESULT.plot, {}),
    "column": (RESULT.table().column, {}),
    "to_html": (AUDIT.to_html, {"path": "report.html"}),
}
FITS: dict[str, dict[str, str]] = {
    "metric": {
        "obj": "", "bounds": "", "higher_means": "", "reference": "", "differentiable": "", "name": "None str",
        "cache_key": "None str",
    },
    "defense": {"fn": "", "differentiable": "", "random": "", "name": "None str", "cache_key": "None str"},
    "attack": {
        "fn": "", "access": "", "norm": "", "radius": "int", "queries": "None int", "name": "None str",
        "cache_key": "None str",
    },
    "evaluator": {"fn": "", "name": "None str", "cache_key": "None str"},
    "evaluate": {
        "objects": "", "track": "", "against": "None", "dataset": "None", "limit": "None int", "seed": "int",
        "device": "", "store": "None str", "progress": "",
    },
    "audit": {
        "target": "", "shadow": "None", "references": "None", "train": "None", "data": "None", "views": "",
        "evaluators": "None", "seed": "int", "workers": "int", "device": "None", "cache": "None str", "progress": "",
    },
    "audit_one_run": {
        "scores": "", "included": "", "train": "None", "data": "None", "canaries": "int list", "delta": "",
        "confidence": "", "guesses": "None int", "seed": "int", "cache": "None str",
    },
    "reconstruct": {
        "gradients": "", "model": "", "shape": "", "attack": "", "originals": "None", "labels": "None list",
        "statistics": "None", "metrics": "", "noise": "int", "seed": "int",
    },
    "run": {
        "profile": "", "track": "None", "attack": "", "defense": "", "metric": "", "evaluator": "", "model": "",
        "dataset": "", "store": "str", "site": "None str", "seed": "int", "limit": "None int", "workers": "None int",
        "device": "", "fresh": "", "progress": "",
    },
    "score": {"metric": "", "images": "", "reference": "", "device": ""},
    "compare": {"a": "", "b": "", "on": "None"},
    "load": {"store_or_site": ""},
    "load_leaderboard": {"site": ""},
    "table": {"name": "None"},
    "rows": {"step": "None"},
    "entry": {"name": ""},
    "to_dataframe": {"name": "None", "step": "None"},
    "to_latex": {"name": "None", "columns": "", "caption": "str"},
    "to_markdown": {"name": "None", "columns": "", "caption": "str"},
    "plot": {"name": "None", "column": "None"},
    "column": {"key": ""},
    "to_html": {"path": "str", "name": "str"},
}  # fmt: skip
"""Function -> argument -> the keys of `WRONG` whose values are right for it."""
CALLED = {(function, "name"): "table" for function in ("table", "to_dataframe", "to_latex", "to_markdown", "plot")}
CALLED |= {("entry", "name"): "entry", ("column", "key"): "column"}
"""Function and argument -> the name that messages use for it."""


@pytest.mark.parametrize(
    ("function", "argument"), [(function, name) for function, names in FITS.items() for name in names]
)
def test_a_value_that_does_not_fit_is_refused_by_the_name_of_its_argument(function: str, argument: str) -> None:
    call, fine = FINE[function]
    name = CALLED.get((function, argument), argument)
    for kind, value in WRONG.items():
        if kind in FITS[function][argument].split():
            continue
        further = {"originals": np.ones((1, 3, 8, 8))} if argument == "metrics" else {}
        with pytest.raises(UsageError) as caught:
            call(**{**fine, **further, argument: value})
        message = str(caught.value)
        assert message.startswith((f"{name} ", f"{name}:")), (kind, message)
        assert "\n" not in message, kind


def test_every_function_of_the_notebook_and_every_argument_is_tried() -> None:
    import inspect

    functions = {name for name in offers() if name[0].islower()}
    assert functions <= FITS.keys()
    for name in functions:
        assert set(inspect.signature(getattr(ih, name)).parameters) == set(FITS[name]), name


@pytest.mark.parametrize("batch", [5, (1, 2, 3), (1, 2)])
def test_loaders_that_yield_no_pairs_are_refused_in_one_line(batch: object) -> None:
    with pytest.raises(UsageError, match=r"^target: expected loaders of pairs of inputs and labels, got "):
        ih.audit((MODEL, [batch], [batch]))
    with pytest.raises(UsageError, match=r"^target: expected two loaders after the model, got 5"):
        ih.audit((MODEL, 5, 5))


@pytest.mark.parametrize("seed", [-1, 2**63, np.int64(-3)])
def test_a_seed_is_at_least_0(seed: int) -> None:
    for function in ("evaluate", "reconstruct"):
        call, fine = FINE[function]
        with pytest.raises(UsageError, match=r"^seed: expected a whole number from 0 to 2\^63 - 1, got "):
            call(**fine, seed=seed)


def test_a_number_that_is_no_float_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"^radius: expected a finite number above 0"):
        ih.attack(moved, access="black_box", norm="linf", radius=10**400)
    with pytest.raises(UsageError, match=r"^bounds: expected finite"):
        ih.metric(score_of, bounds=(0, 10**400), higher_means="better_quality")


def test_a_class_of_modules_is_no_module() -> None:
    with pytest.raises(
        UsageError, match=r"fn: Identity is a class of modules; give a module, such as Identity\(\.\.\.\)"
    ):
        ih.defense(torch.nn.Identity, differentiable=True)


def test_an_error_of_a_value_whose_text_fails_is_still_one_line() -> None:
    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    with pytest.raises(UsageError, match=r"^differentiable: expected True or False, got a Silent"):
        ih.defense(score_of, differentiable=Silent())  # type: ignore[arg-type]
