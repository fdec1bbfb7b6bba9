"""Finished tasks of the image-quality track, written by hand: rows of all steps that its tables are made of."""

import numpy as np

from imharness.results.identity import ComponentRef
from imharness.results.query import ResultQuery
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness_iqa.tables.data import Study, load

ROLES = ("dataset", "metric", "attack", "defense", "source")
OPTIONS = ("method", "strength", "adaptive", "attacked")


class Finished:
    """A store to which rows are added step by step; rows with the same roles and options make one task."""

    def __init__(self, folder) -> None:
        self.store, self.records = Store(folder), []

    def add(self, step: str, rows: dict, roles: tuple[str, ...], facts: dict | None = None) -> None:
        tasks: dict[tuple, list[int]] = {}
        options = [name for name in OPTIONS if name in rows]
        for i, combination in enumerate(zip(*(rows[name] for name in (*roles, *options)), strict=True)):
            tasks.setdefault(combination, []).append(i)
        for combination, mine in tasks.items():
            named = dict(zip((*roles, *options), combination, strict=True))
            spec = TaskSpec(
                track="harness/iqa",
                step=step,
                version="1",
                limit=None,
                seed=0,
                needs={},
                options={name: named[name] for name in options},
                components={
                    role: ComponentRef(kind=role, id=named[role], version="1", label=named[role], parameters={})
                    for role in roles
                },
            )
            bare = TaskRecord(
                key=f"{len(self.records):064x}",
                spec=spec,
                status="done",
                started="",
                seconds=0.0,
                device="",
                versions={},
                facts=facts or {},
            )
            columns = {name: np.array([values[i] for i in mine]) for name, values in rows.items() if name not in named}
            self.records.append(self.store.commit(bare, columns, {}))

    def query(self) -> ResultQuery:
        return ResultQuery(self.store, self.records)


def rows(score: list[float], source: list[float], **more) -> dict[str, list]:
    """Return rows with the scores of defended attacked and of clean images, and every other column that tables need."""
    n = len(score)
    names = more.get("name", [f"i{k}" for k in range(n)])
    return {
        "dataset": ["d"] * n,
        "metric": ["m"] * n,
        "method": ["a"] * n,
        "strength": ["weak"] * n,
        "adaptive": [False] * n,
        "defense": ["x/one"] * n,
        "name": names,
        "photograph": names,
        "mos": [float(k) for k in range(n)],
        "score": score,
        "source": source,
        "defended": source,
        "lower": [0.0] * n,
        "upper": [10.0] * n,
        "psnr": [30.0] * n,
        "ssim": [0.9] * n,
        "mse": [0.001] * n,
        "linf": [0.1] * n,
        "access": ["white_box"] * n,
        "norm": ["linf"] * n,
        "proxy": [""] * n,
        "labelled": [""] * n,
        "attacked": score,
        "sign": [1] * n,
        "si": [0.0] * n,
        "cf": [0.0] * n,
        "changed_ssim": [0.9] * n,
        "changed_linf": [0.02] * n,
        "elsewhere": [np.nan] * n,
        **more,
    }


def once(table: dict[str, list], by: tuple[str, ...], **columns: str) -> dict[str, list]:
    """Return columns under new names, one row for each combination of the columns `by`."""
    first: dict[tuple, int] = {}
    for i, combination in enumerate(zip(*(table[name] for name in by), strict=True)):
        first.setdefault(combination, i)
    wanted = {**{name: name for name in by}, **columns}
    return {name: [table[column][i] for i in first.values()] for name, column in wanted.items()}


def written(
    finished: Finished, table: dict, *, entries=None, groups=None, times=None, trained: frozenset[str] = frozenset()
) -> Study:
    """Write the steps that give such rows of defended attacked images; return the study that tables are made of."""
    image, pair = ("dataset", "metric", "name"), ("dataset", "metric")
    columns = ("dataset", "metric", "defense", "method", "strength", "adaptive", "name")
    names = {name: name for name in ("score", "psnr", "ssim", "mse", "linf", "elsewhere") if name in table}
    finished.add("evaluate", once(table, columns, **names), (*pair, "defense"))
    names = {name: name for name in ("mos", "lower", "upper", "sign", "photograph", "proxy", "labelled", "si", "cf")}
    finished.add("clean", once(table, image, score="source", **names), pair)
    defended = once(table, (*image, "defense"), score="defended")
    defended["trained"] = [label in trained for label in defended["defense"]]
    finished.add("defended", defended, (*pair, "defense"))
    names = {"access": "access", "norm": "norm", "score": "attacked", "ssim": "changed_ssim", "linf": "changed_linf"}
    for adaptive, roles in ((False, pair), (True, (*pair, "defense"))):
        here = [i for i, value in enumerate(table["adaptive"]) if value == adaptive]
        subset = {name: [values[i] for i in here] for name, values in table.items()}
        finished.add("attack", once(subset, (*roles, "method", "strength", "adaptive", "name"), **names), roles)
    for label in sorted(set(table["defense"]) - trained):
        kind = {"entry": [(entries or {}).get(label, label)], "group": [(groups or {}).get(label, "other")]}
        facts = {"ms": (times or {}).get(label, 1.0)}
        finished.add("purify", {"defense": [label], "name": ["i"], **kind}, ("defense",), facts)
    return load(finished.query())


def reversed_shares(clean: list[float], attacked: list[float]) -> list[float]:
    """Return for each image in what share of the others, %, an attack on it changes their order, by counting."""
    sign = np.sign
    return [
        100 * float(np.mean([sign(clean[i] - c) != sign(attacked[i] - c) for j, c in enumerate(clean) if j != i]))
        for i in range(len(clean))
    ]
