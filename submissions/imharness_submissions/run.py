"""One run of one submission: the opened package, its plan, and the computation of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from imharness.contracts.membership_evaluator import MembershipEvaluator
from imharness.documents.tables import joined, several
from imharness.errors import HarnessError, StoreError, Unavailable
from imharness.planning.plan import Graph
from imharness.planning.profile import Profile
from imharness.planning.secret import digest_of
from imharness.reading.text import plain
from imharness.results.identity import ComponentRef
from imharness.results.store import Store
from imharness.running.session import Session
from imharness.running.sweep import RunResult
from imharness.running.views import Nothing, View
from imharness_submissions.deadline import Deadline
from imharness_submissions.ledger import Ledger
from imharness_submissions.manifest import read_lock, read_manifest
from imharness_submissions.opening import RunningSubmission, open_submission
from imharness_submissions.owners import look_alikes
from imharness_submissions.planned import by_kind, concerns, ids_of, only_with, split_of, with_tasks
from imharness_submissions.report import is_late
from imharness_submissions.sandbox.worker import guest_beside
from imharness_submissions.store_secret import secret_of

PATIENCE = 4
"""How many times as long the second try of what took too long may take: a busy machine makes honest entries slow."""


class Run:
    """One run of one submission into a store: the opened package, and the sessions that compute its tasks.

    `limit`: how many images of each data set. `trusted`: runs the package without a sandbox. `device`, `workers`,
    `executor` and `settings` say where tasks are computed, see `imharness.running.executor.open_executor`.
    """

    def __init__(
        self,
        folder: Path,
        store: Store,
        profile: Profile,
        *,
        device: str = "cpu",
        workers: int = 0,
        seed: int = 0,
        limit: int | None = None,
        trusted: bool = False,
        command: str = "",
        executor: str = "local",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder, self.store, self.profile, self.seed, self.limit = folder, store, profile, seed, limit
        self.name = folder.resolve().name
        self.submission = read_manifest(folder)
        self.device = device if self.submission.hardware.gpu else "cpu"
        self.lock = tuple(read_lock(folder))
        self.stream_secret = profile.secret or secret_of(store)
        """The secret from which the random streams of the package follow, and the split of its evaluators."""
        self.broken = False
        """Whether a stage of the run broke off."""
        self.unjudged: list[str] = []
        """What took too long twice, with the limit, so that the entries are not judged yet."""
        self._controls: dict[tuple[str, str], bool] = {}
        self.look_alikes, self.opened = self._open(trusted)
        self.evaluators = [c for c in self.opened.components if isinstance(c, MembershipEvaluator)]
        """The entries that are measured on the split of the store's secret."""
        registry, devices = self.opened.registry, [self.device]
        self.session = Session(store, profile, registry, seed, limit, command, executor, devices, workers, settings)
        self.sessions = [self.session]
        """The session of the profile, and then, for evaluators, that of the store's secret."""
        if self.evaluators and not profile.secret:
            hidden = profile.model_copy(update={"secret": self.stream_secret})
            self.sessions.append(replace(self.session, profile=hidden))

    def _open(self, trusted: bool) -> tuple[list[str], RunningSubmission]:
        """Return the names that are like others, and the opened package; the ledger says why one is refused."""
        ledger = Ledger(self.store.address)
        try:
            names = list(look_alikes(self.submission, ledger, self.name))
            opened = open_submission(
                self.folder,
                self.submission,
                trusted=trusted,
                secret=self.profile.secret,
                stream_secret=self.stream_secret,
            )
        except Unavailable:
            raise
        except Exception as error:  # whatever a package makes of its opening
            reason = f"the package cannot be used: {_line(error)}"
            ledger.append(self.name, (), "refused", reason)
            if isinstance(error, HarnessError):
                raise
            raise HarnessError(reason) from error
        return names, opened

    @contextmanager
    def noting(self, stage: str) -> Iterator[None]:
        """Note an error that the package causes in the block, so that the report names it.

        `StoreError` and `Unavailable`, which it does not cause, are raised.
        """
        try:
            yield
        except (StoreError, Unavailable):
            raise
        except Exception as error:  # a stranger's outputs may break whatever is computed from them
            self.broken = True
            self.note(f"{stage} broke off", error)

    def note(self, what: str, error: Exception) -> None:
        """Let the report say what an error prevented."""
        self.opened.guest.note([f"{what}: {_line(error)}"])

    def time_of_a_task(self, patience: int = 1) -> Deadline:
        """Let an entry take `patience` times as long as a task may, in all its calls: each has a limit, but not all."""
        return Deadline(self.opened.guest, patience * self.profile.time_limit_s)

    def end_task(self) -> None:
        """End what the guest does as if it were a task."""
        try:
            self.opened.guest.end_task(failed=False)
        except HarnessError as error:
            self.opened.guest.note([str(error)])

    def plan(self) -> list[Graph]:
        """Return the graphs of the tasks that use the entries, with the tasks that these tasks need.

        Tasks of evaluators, and what they need, are those of the store's secret (`imharness_submissions.store_secret`).
        """
        registry = self.opened.registry
        tracks = [registry.track(name) for name in self.profile.tracks]
        graphs = []
        for name, track in zip(self.profile.tracks, tracks, strict=True):
            others = [c for c in self.opened.components if c not in self.evaluators and concerns(track, c, tracks)]
            (graph,) = self.session.plan([name], further=by_kind(others))
            graphs.append(only_with(graph, ids_of(others), self._is_control))
        if self.evaluators:
            hidden = self.sessions[-1].plan(further=by_kind(self.evaluators))
            selections = [only_with(graph, ids_of(self.evaluators), None) for graph in hidden]
            graphs = [with_tasks(*pair) for pair in zip(graphs, selections, strict=True)]
        return [graph for graph in graphs if graph.tasks or graph.missing]

    def bound(self, graphs: Sequence[Graph]) -> str:
        """Say how many tasks there are to compute, and how long these and the judging may take in one process.

        Judging takes each entry as long as two tasks at most: the conformance suite, and the audit of its gradients.
        """
        tasks = {key: task for graph in graphs for key, task in graph.tasks.items()}
        waiting = len(tasks) - len(self.store.finished(tasks)[0])
        seconds = (1 + PATIENCE) * self.profile.time_limit_s * (waiting + 2 * len(self.opened.components))
        return (
            f"{several(waiting, 'task')} to compute, then to judge {joined(self.opened.ids)}: "
            f"{seconds / 3600:.1f} h at most in one process, {self.profile.time_limit_s:g} s each and "
            f"{PATIENCE} times as long for what needs a second try"
        )

    def _is_control(self, ref: ComponentRef) -> bool:
        key = (ref.kind, ref.label)
        if key not in self._controls:
            self._controls[key] = bool(self.opened.registry.revive(ref).control)
        return self._controls[key]

    def compute(self, graphs: Sequence[Graph], view: Callable[[], View] = Nothing) -> RunResult:
        """Compute the tasks that the store lacks. Each worker starts the package in a sandbox of its own.

        That sandbox is started like the one that has run until now, which has learnt what the package imports. `view`
        opens a view of the progress; tasks on the store's secret split are computed and shown after the others.
        """
        prepare = [guest_beside(self.opened.guest, self.opened.description, self.profile.secret)]
        total = RunResult()
        for session in self.sessions:
            session.prepare = prepare
            split_graphs = [split_of(graph, digest_of(session.profile.secret)) for graph in graphs]
            result = session.compute(split_graphs, view(), noted=True)
            late = {key for key, line in result.failed.items() if is_late(line)}
            if late:
                self._again(session, split_graphs, late, result, view())
            total.done |= result.done
            total.failed |= result.failed
            total.reused += result.reused
            total.warnings += result.warnings
        return total

    def _again(self, session: Session, graphs: Sequence[Graph], late: set[str], result: RunResult, view: View) -> None:
        """Compute the tasks `late`, whose time was over, once more, and write the outcome into the result."""
        limit = PATIENCE * session.profile.time_limit_s
        patient = replace(session, profile=session.profile.model_copy(update={"time_limit_s": limit}))
        subsets = [
            replace(graph, tasks={key: task for key, task in graph.tasks.items() if key in late}) for graph in graphs
        ]
        second = patient.compute(subsets, view, noted=True)
        result.done |= second.done
        result.failed = {key: line for key, line in result.failed.items() if key not in late} | second.failed
        result.warnings += second.warnings


def _line(error: Exception) -> str:
    return f"{plain(str(error)) or type(error).__name__:.300}"
