"""Makes the questions about the images of a run, and finds which tasks of a run made the images that people judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from imharness.errors import UsageError
from imharness_annotation import Wanted
from imharness_annotation.book import Book, Question
from imharness_annotation.sources import ORIGINAL, Likely, Rebuilt, class_questions, pair_questions

RECONSTRUCTION, IQA = "harness/reconstruction", "harness/iqa"
ROLES = ("dataset", "attack", "model", "defense")
SETTING = ("attack", "metric", "strength", "attacker")


def questions_for(kind: str, store: str, wanted: Wanted, published: bool = False) -> Iterator[Question]:
    """Yield the questions of a kind about what a store has; raises `UsageError` when it has nothing to ask about."""
    from imharness_annotation.defended import questions

    if kind == "better":
        return questions(store, wanted)
    groups = list(_rebuilt(store, wanted.attacks, wanted.limit))
    if not groups:
        raise UsageError(f"store {store} has no reconstructions{' of these attacks' if wanted.attacks else ''}.")
    if kind == "pair":
        return pair_questions(groups)
    return class_questions(groups, likely=_likely(store, groups) if published else None)


def patches_for(kind: str, dataset: str, pairs: int) -> Iterator[Question]:
    """Yield the questions of a kind about patches of a data set's images."""
    from imharness.commands import device_of, find
    from imharness_annotation.patches import nearer_questions, noticeable_questions

    images = find("dataset", dataset).build(device_of("cpu"))  # type: ignore[attr-defined]
    return nearer_questions(images, pairs) if kind == "2afc" else noticeable_questions(images, pairs)


def _rebuilt(store: str, attacks: tuple[str, ...], limit: int | None) -> Iterator[Rebuilt]:
    """Yield the reconstructions of a run by these attacks (empty: all), at most `limit` images of each task."""
    from imharness.commands import component, device_of, find, finished

    wanted = {component("attack", name).info.id for name in attacks}
    sets = {}
    for task in finished(store, RECONSTRUCTION, "reconstruct"):
        if wanted and component("attack", task.labels["attack"]).info.id not in wanted:
            continue
        label, images = task.labels["dataset"], task.output.arrays["images"]
        if label not in sets:
            sets[label] = find("dataset", label).build(device_of("cpu"))  # type: ignore[attr-defined]
        count = min(len(images), limit or len(images))
        facts = {role: task.labels[role] for role in ROLES}
        yield facts, images[:count], sets[label]


def _likely(store: str, groups: Sequence[Rebuilt]) -> Likely:
    """Return the classes of each original, the most likely one by the run's judge first."""
    import numpy as np
    import torch

    from imharness.commands import device_of, find, finished
    from imharness.data import generator
    from imharness_annotation.sources import class_names

    sets = {facts["dataset"]: private.first(len(images)) for facts, images, private in groups}
    by_label: dict[str, dict[str, list[str]]] = {}
    for task in finished(store, RECONSTRUCTION, "judge"):
        label = task.labels["dataset"]
        if label not in sets:
            continue
        private, training_data = sets[label], find("dataset", task.labels["training"]).build(device_of("cpu"))  # type: ignore[attr-defined]
        names = dict(zip(np.asarray(training_data.columns["label"]).tolist(), class_names(training_data), strict=True))
        pixels = private.load(list(range(len(private))))
        network = find("model", task.labels["model"]).build(device_of("cpu"))  # type: ignore[attr-defined]
        judge = network(tuple(pixels.shape[1:]), max(names) + 1, generator(0))
        state = {n.removeprefix("weight."): torch.from_numpy(np.array(a)) for n, a in task.output.arrays.items()}
        judge.load_state_dict(state)
        with torch.no_grad():
            order = torch.cat([judge.eval()(chunk) for chunk in pixels.split(256)]).argsort(dim=1, descending=True)
        by_label[label] = {
            name: [names[c] for c in row if c in names] for name, row in zip(private.names, order.tolist(), strict=True)
        }
    missing = sorted(set(sets) - set(by_label))
    if missing:
        raise UsageError(
            f"store {store} has no judge that was trained in the run on {missing[0]}, to say which classes are likely; "
            "leave --published out, or run with a judge such as harness/convnet8."
        )
    return by_label


def shown_by(book: Book, store: str) -> dict[str, frozenset[str]]:
    """Return the key of each judged question -> the keys of the tasks that made its images, in a store's latest run.

    A question is left out if the run has other images than people saw: a run with another seed or other options has
    images of the same names, but not the same images.
    """
    counted = [vote for vote in book.counted() if not vote.decoy and vote.facts.get("defense") != ORIGINAL]
    kind, judged = book.about("kind"), {vote.key for vote in counted}
    tasks = _tasks(kind, store)
    return {
        question.key: frozenset(key for facts, key in tasks if facts.items() <= _made_by(question.facts).items())
        for wanted in _wanted(kind, [vote.facts for vote in counted])
        for question in questions_for(kind, store, wanted)
        if question.key in judged and book.shows(question)
    }


def _made_by(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the facts of a question by which the tasks that made its images are known."""
    return {name: facts[name] for name in (*ROLES, *SETTING) if name in facts}


def _tasks(kind: str, store: str) -> list[tuple[dict[str, str], str]]:
    """Return the facts and the key of each task that made images.

    The facts of an attack on a metric do not name a defense: its images belong to the questions about all defenses.
    """
    from imharness.commands import finished

    if kind != "better":
        tasks = finished(store, RECONSTRUCTION, "reconstruct")
        return [({role: task.labels[role] for role in ROLES}, task.key) for task in tasks]
    return [
        (
            {
                "dataset": task.labels["dataset"],
                "attack": str(task.options["method"]),
                "metric": task.labels["metric"],
                "strength": str(task.options["strength"]),
            },
            task.key,
        )
        for task in finished(store, IQA, "attack")
    ]


def _wanted(kind: str, facts: Sequence[Mapping[str, str]]) -> Iterator[Wanted]:
    """Yield the selections with which `questions_for` yields the questions with these facts again."""
    if kind != "better":
        yield Wanted((), ())
        return
    defenses = tuple(sorted({fact[side] for fact in facts for side in ("left", "right")}))
    for attack, metric, strength, attacker in sorted({tuple(f[name] for name in SETTING) for f in facts}):
        yield Wanted((attack,), defenses, (metric,), strength, attacker)
