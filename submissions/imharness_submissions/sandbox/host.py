"""The harness's side of the sandbox: starts a package as a guest, calls it, and ends it when it breaks a rule."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import torch

from imharness.errors import ContractError, HarnessError, QueryBudgetExceeded, SandboxViolation, Unavailable, UsageError
from imharness.testing.audit import unwatched
from imharness_submissions.sandbox.jail import Ends, GuestSpec, Jail, Printed, process_of
from imharness_submissions.sandbox.prestart import of_libraries
from imharness_submissions.sandbox.processes import tree
from imharness_submissions.sandbox.wire import Channel, Closed, Message, WireError

POLL_S = 0.05
LEAVING_S = 3.0
LATE = "took longer for all its calls, and for what follows from them, than a task may take"
TOLD, MOST_TOLD = ("tried to ", "says "), 40
_KNOWN: dict[str, type[Exception]] = {
    "ContractError": ContractError,
    "UsageError": UsageError,
    "QueryBudgetExceeded": QueryBudgetExceeded,
    "MemoryError": MemoryError,
    "OutOfMemoryError": MemoryError,
}
Answer = Callable[[Message], Message]


class OutOfTime(SandboxViolation):
    """Judging an entry took longer than a task may take, which may be the machine's doing."""


class GuestError(HarnessError):
    """An error that the plugin's own code raised."""


def _nothing(message: Message) -> Message:
    raise SandboxViolation(f"asked for {message.kind!r:.40} in a call that answers no questions")


class Closing(Protocol):
    """Holds a session while a task runs."""

    def end(self) -> None:
        """End the session."""

    def check_again(self) -> None:
        """Ask one call again in a fresh process, and compare the answers."""

    def forget(self) -> None:
        """Drop the call that would be asked again."""


class Guest:
    """A submitted package that runs, or can be started. `attempts` lists the rules that it tried to break.

    Args:
        spec: how the guest is started; it goes inside.
        secret: the seed of the secret split that the package is measured on, "" for the public one; it stays outside.
        stream_secret: the secret from which the random streams and the orders of rows inside follow, by default
            `secret`; on the public split, the store's. It stays outside.
    """

    def __init__(self, spec: GuestSpec, secret: str = "", stream_secret: str = "") -> None:
        self.spec, self.secret, self.stream_secret = spec, secret, stream_secret or secret
        self.attempts: list[str] = []
        self.remotes: weakref.WeakSet[Closing] = weakref.WeakSet()
        self.level = ""
        """How the guest is isolated, for records; empty before it was started."""
        self.until = float("inf")
        """The time, of `time.monotonic`, after which no request is answered any more."""
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._jail: Jail | None = None
        self._ahead: tuple[str, Ends | Session] | None = None
        """The session that was started before it is wanted, and the module that it imports."""

    def open(self, module: str = "", *, young: bool = False) -> Session:
        """Return a new session: a fresh process in namespaces of its own, which shares nothing with others.

        Usually it is the session that was started ahead at the last call, which has imported `module` by now; and the
        next one is started ahead. A `young` session is started now, and the one that was started ahead goes on waiting:
        this may be as old as the sessions with whose answers those of the new one are compared.
        """
        jail = self._running()
        try:
            if young:
                if self._ahead is not None:
                    self._ahead = self._ahead[0], self._taken(jail, self._ahead[1])
                session = self._taken(jail, jail.order(module))
            else:
                ahead, self._ahead = self._ahead, None
                if ahead is not None and ahead[0] != module:
                    self._taken(jail, ahead[1]).close()
                    ahead = None
                session = self._taken(jail, jail.order(module) if ahead is None else ahead[1])
                self._ahead = module, jail.order(module)
            self._sessions.add(session)
        except BaseException as error:
            self.kill()
            if isinstance(error, Unavailable):  # the first process ran, and what runs in sessions may have ended it
                self.note([f"let no further session start: {error}"])
            raise
        return session

    def _taken(self, jail: Jail, ordered: Ends | Session) -> Session:
        """Return the session that was ordered; sessions have to be taken in the order in which they were ordered."""
        return ordered if isinstance(ordered, Session) else Session(self, jail, jail.born(), ordered)

    def note(self, attempts: Iterable[str]) -> None:
        """Remember what the outside saw."""
        for text in attempts:
            line = " ".join(text.split())[:300]
            if line not in self.attempts and len(self.attempts) < 100:
                self.attempts.append(line)

    def hear(self, attempts: Iterable[str]) -> None:
        """Remember attempts that were reported from inside, where the package may say anything; `MOST_TOLD` at most."""
        for text in attempts:
            if not text.startswith(TOLD):
                text = f"says {text!r}"
            if sum(line.startswith(TOLD) for line in self.attempts) < MOST_TOLD:
                self.note([text])

    def end_task(self, failed: bool) -> None:
        """End all sessions. Unless the task failed, ask one call of each again in a fresh process.

        Raises `SandboxViolation` when processes stay behind, `ContractError` when an answer differs.
        """
        remotes = list(self.remotes)
        try:
            for remote in remotes:
                remote.end()
                if failed:
                    remote.forget()
            self.end_all()
            for remote in remotes:
                remote.check_again()
        finally:
            self.end_all()
            for remote in remotes:
                remote.forget()

    def pop_attempts(self) -> list[str]:
        """Return the attempts so far, and forget them."""
        attempts, self.attempts = self.attempts, []
        return attempts

    def end_all(self) -> None:
        """Close every session, also those whose functions nobody holds any more."""
        for session in list(self._sessions):
            session.close()

    def kill(self) -> None:
        """End the guest; the next session starts it again."""
        if self._ahead is not None:
            self._ahead[1].close()
            self._ahead = None
        if self._jail is not None:
            self._jail.kill()
            self._jail = None

    def import_ahead(self, names: Iterable[str]) -> None:
        """Let the first process import modules of libraries before it starts sessions; it starts again for new ones."""
        new = [name for name in of_libraries(names) if name not in self.spec.libraries]
        if new:
            self.kill()
            self.spec = replace(self.spec, libraries=(*self.spec.libraries, *new))

    def _running(self) -> Jail:
        if self._jail is not None and self._jail.process.poll() is not None:
            self.kill()
        if self._jail is None:
            with unwatched():
                self._jail = jail = Jail(self.spec)
            weakref.finalize(self, jail.kill)
            self._require_group(jail.group is not None)
            if not jail.wait_until_ready():
                with contextlib.suppress(SandboxViolation):
                    jail.printed.hear()
                self.kill()
                raise Unavailable(f"the sandbox did not start: {jail.printed.last_line}")
            self.level = jail.level
            self._require_group(jail.grouped)
        return self._jail

    def _require_group(self, there: bool) -> None:
        """End the guest and raise `Unavailable` where it needs a control group that is not there."""
        if self.secret and not self.spec.trusted and not there:
            self.kill()
            raise Unavailable(
                "official runs, those on a secret split, need a control group, and none holds the sandbox here",
                "run it where /sys/fs/cgroup can be written, or without --secret",
            )


class Session:
    """One process of a guest, and the pipe to it. Breaking any rule ends the whole guest."""

    def __init__(self, guest: Guest, jail: Jail, process: int, ends: Ends) -> None:
        self.closed = False
        self._guest, self._jail, self._process = guest, jail, process
        self._printed = Printed(ends.hearing, guest.spec.limits.printed_kib)
        self._channel = Channel(ends.reading, ends.writing, guest.spec.limits.message_mib << 20, self._wait)
        self._deadline, self._inspected = 0.0, 0.0
        self._refused: QueryBudgetExceeded | None = None
        self.dropped: list[int] = []
        """Handles of autograd graphs that nobody can ask for any more."""

    def request(
        self,
        kind: str,
        facts: Mapping[str, Any] | None = None,
        tensors: Mapping[str, torch.Tensor] | None = None,
        answer: Answer = _nothing,
    ) -> Message:
        """Send a request to the guest, and return its reply.

        `answer` replies to the questions that the guest asks meanwhile. Raises the error that the guest's code raised,
        or `SandboxViolation`.
        """
        request_facts = dict(facts or {})
        if self.dropped:
            request_facts["dropped"], self.dropped = self.dropped, []
        with self._watched():
            self._channel.send(Message(kind, request_facts, tensors or {}))
            reports = 0
            while (message := self._receive()).kind in ("score", "progress"):
                reports += message.kind == "progress"
                if reports > self._guest.spec.limits.reports:
                    raise SandboxViolation(f"reported progress more than {self._guest.spec.limits.reports} times")
                self._channel.send(self._served(answer, message))
            if message.kind in ("error", "done"):
                self._jail.inspect()  # an error may hide that a limit was reached
        self._guest.hear(message.names("attempts"))
        if message.kind == "error" or self._refused is not None:
            self._raise(message)
        return message

    def _served(self, answer: Answer, message: Message) -> Message:
        """Answer a question of the guest; the time that this takes is not the guest's.

        When the query budget is exceeded, the guest gets a refusal, and the error is raised here after its reply, even
        if the plugin catches the refusal.
        """
        started = time.monotonic()
        try:
            return answer(message)
        except QueryBudgetExceeded as error:
            self._refused = error
            return Message("refused", {"type": "QueryBudgetExceeded", "text": str(error)})
        finally:
            self._deadline += time.monotonic() - started

    def _raise(self, message: Message) -> None:
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused
        kind, text = str(message.facts.get("type"))[:80], " ".join(str(message.facts.get("text")).split())[:500]
        if kind in _KNOWN:
            raise _KNOWN[kind](text)
        error = GuestError(f"{kind}: {text}")
        error.add_note(str(message.facts.get("traceback"))[:4000])
        raise error

    def finish(self) -> None:
        """Ask which functions were replaced inside, note them, and close.

        Raises `SandboxViolation` when the session leaves other processes behind; they are ended.
        """
        if not self.closed:
            with contextlib.suppress(HarnessError):
                reply = self.request("done")
                if names := reply.names("changed"):
                    self._guest.note([f"replaced {', '.join(names[:5])}"])
                if reply.facts.get("full"):
                    self._guest.note(["filled its folder"])
        if not self.closed and self._stays():
            self._guest.note(["left processes behind"])
            self._guest.kill()
            self.close()
            raise SandboxViolation(f"{self._guest.spec.distribution}: left processes behind; they were ended")
        self.close()

    def _stays(self) -> bool:
        """Say whether processes that the session started still run after `LEAVING_S`."""
        until = time.monotonic() + LEAVING_S
        while (process := process_of(self._process)) and len(tree(process)) > 1:
            if time.monotonic() > until:
                return True
            time.sleep(0.005)
        return False

    def close(self) -> None:
        """End the process and all that it started, and close the pipe."""
        if not self.closed:
            self.closed = True
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            os.close(self._process)
            self._channel.close()
            self._printed.close()

    def __del__(self) -> None:
        self.close()

    @contextlib.contextmanager
    def _watched(self) -> Any:
        """End the guest when it breaks a rule within the block."""
        if self.closed:
            raise SandboxViolation("called after its session had ended")
        self._inspected = time.monotonic()
        self._deadline = min(self._inspected + self._guest.spec.limits.answer_s, self._guest.until)
        try:
            yield
        except (Closed, WireError, SandboxViolation) as error:
            line = self._named(error)
            self.close()
            late = isinstance(error, OutOfTime)
            self._guest.note([] if late else [line])
            self._guest.kill()
            raise (OutOfTime if late else SandboxViolation)(f"{line}; it was ended") from None
        except BaseException:  # interrupted before the reply: the next request would read the wrong one
            self.close()
            self._guest.kill()
            raise

    def _named(self, error: Exception) -> str:
        if isinstance(error, WireError):
            return f"sent {error}"
        if isinstance(error, Closed):
            with contextlib.suppress(HarnessError):
                self._printed.hear()
            try:
                self._jail.inspect()
            except HarnessError as reason:
                return str(reason)
            words = self._printed.last_line
            return "its process ended in the middle of a call" + (f" ({words[:200]})" if words else "")
        return str(error)

    def _receive(self) -> Message:
        message = self._channel.receive()
        self._printed.hear()
        self._check_deadline()
        return message

    def _check_deadline(self) -> None:
        if time.monotonic() > self._guest.until:
            raise OutOfTime(LATE)
        if time.monotonic() > self._deadline:
            raise SandboxViolation(f"did not answer within {self._guest.spec.limits.answer_s:g} s")

    def _wait(self, fd: int, writing: bool) -> None:
        """Wait until the pipe is ready, and check the guest's limits meanwhile."""
        self._check_deadline()
        reading = [self._printed.reading, *([] if writing else [fd])]
        ready, able, _ = select.select(reading, [fd] if writing else [], [], POLL_S)
        if self._printed.reading in ready:
            self._printed.hear()
        if time.monotonic() > self._inspected + POLL_S:
            self._jail.inspect()
            self._inspected = time.monotonic()
        if not able and fd not in ready and self._jail.process.poll() is not None:
            raise Closed
