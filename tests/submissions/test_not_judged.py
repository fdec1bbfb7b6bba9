"""An examination that is late may be the fault of the machine: it is tried again, then not judged, and not flagged."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.sandbox.test_blind_inputs import report

from imharness.documents.entries import Standing, flags_in
from imharness.documents.rankings import Place
from imharness.ranking.headline import bar_of
from imharness.results.identity import digest
from imharness.results.store import Store
from imharness.running.sweep import RunResult
from imharness.testing.conformance import Late, Trial
from imharness_submissions import judging
from imharness_submissions.ledger import Ledger
from imharness_submissions.recording import Findings, _unjudged, write_ledger
from imharness_submissions.report import LATE, markdown
from imharness_submissions.run import PATIENCE, Run
from imharness_submissions.sandbox.host import OutOfTime

SLOW = "took longer than the time limit of 600 s"


@pytest.fixture(autouse=True)
def tools() -> None:
    """No sandbox is needed."""


class Running:
    """Replaces a run of which only the time matters; `patience` lists the limit of each try, in limits of a task."""

    def __init__(self) -> None:
        self.unjudged: list[str] = []
        self.patience: list[int] = []
        self.profile = SimpleNamespace(time_limit_s=600.0)
        entry = SimpleNamespace(label="x/slow")
        self.opened = SimpleNamespace(components=[entry], description=SimpleNamespace(distribution="x", import_s=1.0))

    @contextmanager
    def time_of_a_task(self, patience: int = 1) -> Iterator[None]:
        self.patience.append(patience)
        yield

    def end_task(self) -> None:
        """End nothing."""


@pytest.mark.parametrize("late", [0, 1, 2])
def test_an_examination_that_takes_too_long_is_tried_once_more_and_then_not_judged(late: int) -> None:
    run, answers = Running(), iter([*[None] * late, "audit", "audit"])

    def examined() -> str:
        answer = next(answers)
        if answer is None:
            raise OutOfTime("took longer than a task may take")
        return answer

    audit = judging._patiently(run, run.opened.components[0], examined)
    assert audit == (None if late == 2 else "audit")
    assert run.patience == [1, PATIENCE][: late + 1]
    assert run.unjudged == (["x/slow: attacks on it took longer than 2400 s, in the second try"] if late == 2 else [])


@pytest.mark.parametrize(("late", "status"), [(0, "passed"), (1, "passed"), (2, LATE)])
def test_a_check_that_takes_too_long_is_tried_once_more(
    late: int, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def examine() -> str:
        tries.append(1)
        if len(tries) <= late:
            raise Late("took longer than 60 s")
        return "as it says"

    component = SimpleNamespace(label="x/slow")
    monkeypatch.setattr(judging, "trials", lambda entry, seed: [Trial(component, "answers", examine)])
    _, (outcome, _) = judging.conformance(Running(), lambda done, total: None)
    assert (outcome.status, len(tries)) == (status, 1 + min(late, 1))


@dataclass(frozen=True)
class Sessions:
    """Computes tasks of which `slow` take longer than the first limit, and `stuck` longer than any."""

    profile: SimpleNamespace
    slow: str = "slow"
    stuck: str = "stuck"

    def compute(self, graphs: list, view: object, *, noted: bool) -> RunResult:
        keys = {key for graph in graphs for key in graph.tasks}
        late = {self.stuck} | ({self.slow} if self.profile.time_limit_s < 601 else set())
        failed = dict.fromkeys(keys & late, f"x: {SLOW}") | dict.fromkeys(keys & {"wrong"}, "NaN")
        return RunResult(done=keys - failed.keys(), failed=failed)


@dataclass(frozen=True)
class Tasks:
    """A graph of which only the keys matter."""

    tasks: dict[str, None]


class Limits(SimpleNamespace):
    """A profile with a time limit."""

    def model_copy(self, update: dict) -> "Limits":
        return Limits(**{**vars(self), **update})


def test_tasks_whose_time_was_over_are_computed_once_more_with_more_of_it() -> None:
    session, graphs = Sessions(Limits(time_limit_s=600.0)), [Tasks(dict.fromkeys(("fast", "slow", "stuck", "wrong")))]
    first = session.compute(graphs, None, noted=True)
    late = {key for key, line in first.failed.items() if SLOW in line}
    Run._again(None, session, graphs, late, first, None)
    assert first.done == {"fast", "slow"}
    assert first.failed == {"stuck": f"x: {SLOW}", "wrong": "NaN"}
    assert replace(session).profile.time_limit_s == 600


def test_what_is_not_judged_is_no_flag_and_does_not_win(tmp_path: Path) -> None:
    late = {"evaluate": f"x/slow: {SLOW}", "attack": f"x/slow: {SLOW}"}
    stuck = Findings(started=None, outcome=RunResult(failed=late))
    lines = tuple(_unjudged(Running(), stuck))
    assert lines == (f"2 tasks: x/slow: {SLOW}",)
    both = report(failed={**late, "purify": "NaN"}, unjudged=lines)
    assert both.flags() == ("1 tasks failed: NaN",)
    waiting = report(failed=late, unjudged=lines)
    assert waiting.flags() == ()
    assert "## x: not judged yet" in markdown(waiting)
    facts = waiting.model_dump(mode="json", exclude={"seal", "chance_level", "copies", "ranking"})
    assert waiting.expected_seal() == digest(facts)
    assert report().expected_seal() == digest(
        report().model_dump(mode="json", exclude={"seal", "chance_level", "copies", "ranking", "unjudged"})
    )

    manifest = SimpleNamespace(model_dump=lambda mode: {}, package=SimpleNamespace(file=""))
    opened = SimpleNamespace(ids=("x/slow",))
    run = SimpleNamespace(store=Store(tmp_path), name="slow", submission=manifest, opened=opened, lock=(), broken=False)
    write_ledger(run, waiting)
    assert [line.decision for line in Ledger(tmp_path).lines()] == ["added", "not judged yet"]
    (flag,) = flags_in(Ledger(tmp_path).standings()["x/slow"])
    assert flag == f"not judged yet: {lines[0]}"
    position = Place(complete=True, gate="passes", front=True, broken_by={}, flags=(flag,))
    assert not position.eligible
    assert (bar_of(position), position.doubt) == ("not judged yet", "not judged yet")
    assert bar_of(position.model_copy(update={"flags": (flag, "a look-up")})) == "flagged"
    again = Standing(date="", decision="re-scored", reason="")
    assert flags_in([*Ledger(tmp_path).standings()["x/slow"], again]) == ()
