"""The harness's side of the sandbox: starts a package as a guest, calls it, and ends it when it breaks a rule."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import torch

from imharness.errors import ContractError, HarnessError, QueryBudgetExceeded, SandboxViolation, Unavailable, UsageError
from imharness_submissions.sandbox.jail import GuestSpec, Jail
from imharness_submissions.sandbox.wire import Channel, Closed, Message, WireError

POLL_S = 0.05
LEAVING_S = 3.0
_KNOWN: dict[str, type[Exception]] = {
    "ContractError": ContractError,
    "UsageError": UsageError,
    "QueryBudgetExceeded": QueryBudgetExceeded,
    "MemoryError": MemoryError,
    "OutOfMemoryError": MemoryError,
}
Answer = Callable[[Message], Message]


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
    """A submitted package that runs, or can be started. `attempts` lists the rules that it tried to break."""

    def __init__(self, spec: GuestSpec) -> None:
        self.spec = spec
        self.attempts: list[str] = []
        self.remotes: weakref.WeakSet[Closing] = weakref.WeakSet()
        self.level = ""
        """How the guest is isolated, for records; empty before it was started."""
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._jail: Jail | None = None

    def open(self) -> Session:
        """Return a new session: a fresh process, which shares nothing with earlier ones."""
        jail = self._running()
        (there_in, here_out), (here_in, there_out) = os.pipe(), os.pipe()
        for fd in (here_out, there_out):
            _widen(fd)
        socket.send_fds(jail.control, [b"open"], [there_in, there_out])
        os.close(there_in)
        os.close(there_out)
        session = Session(self, jail, here_in, here_out)
        self._sessions.add(session)
        return session

    def note(self, attempts: Iterable[str]) -> None:
        """Remember attempts that were reported from inside the sandbox."""
        for text in attempts:
            line = " ".join(text.split())[:300]
            if line not in self.attempts and len(self.attempts) < 100:
                self.attempts.append(line)

    def end_task(self, failed: bool) -> None:
        """End all sessions. Unless the task failed, ask one call of each again in a fresh process.

        Raises `SandboxViolation` when processes stay behind, `ContractError` when an answer differs.
        """
        remotes = list(self.remotes)
        for remote in remotes:
            remote.end()
            if failed:
                remote.forget()
        self.end_all()
        try:
            if self._jail is not None and self._stays():
                self.note(["left processes behind"])
                self.kill()
                raise SandboxViolation(f"{self.spec.distribution}: left processes behind; they were ended")
            for remote in remotes:
                remote.check_again()
        finally:
            for remote in remotes:
                remote.forget()

    def taken(self) -> list[str]:
        """Return the attempts so far, and forget them."""
        found, self.attempts = self.attempts, []
        return found

    def end_all(self) -> None:
        """Close every session, also those whose functions nobody holds any more."""
        for session in list(self._sessions):
            session.close()

    def _stays(self) -> bool:
        """Say whether processes of ended sessions still run after `LEAVING_S`."""
        assert self._jail is not None
        own = 1 if self.spec.trusted else 3  # two processes of bubblewrap, and the first one of the guest
        until = time.monotonic() + LEAVING_S
        while self._jail.inspect() > own:
            if time.monotonic() > until:
                return True
            time.sleep(0.005)
        return False

    def kill(self) -> None:
        """End the guest; the next session starts it again."""
        if self._jail is not None:
            self._jail.kill()
            self._jail = None

    def _running(self) -> Jail:
        if self._jail is not None and self._jail.process.poll() is not None:
            self.kill()
        if self._jail is None:
            self._jail = jail = Jail(self.spec)
            self.level = jail.level
            weakref.finalize(self, jail.kill)
            jail.control.settimeout(self.spec.limits.start_s)
            try:
                ready = jail.control.recv(5) == b"ready"
            except OSError:
                ready = False
            if not ready:
                jail.hear()
                words = jail.last_words.decode(errors="replace").strip().splitlines()[-1:]
                self.kill()
                raise Unavailable(f"the sandbox did not start: {' '.join(words)[:300]}")
        return self._jail


def _widen(fd: int) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 1 << 20)


class Session:
    """One process of a guest, and the pipe to it. Breaking any rule ends the whole guest."""

    def __init__(self, guest: Guest, jail: Jail, reading: int, writing: int) -> None:
        self.closed = False
        self._guest, self._jail = guest, jail
        self._channel = Channel(reading, writing, guest.spec.limits.message_mib << 20, self._wait)
        self._deadline = 0.0
        self.dropped: list[int] = []
        """Handles of autograd graphs that nobody can ask for any more."""

    def request(
        self, kind: str, facts: Mapping[str, Any] | None = None, tensors: Mapping[str, torch.Tensor] | None = None,
        answer: Answer = _nothing,
    ) -> Message:  # fmt: skip
        """Send a request to the guest, and return its reply.

        `answer` replies to the questions that the guest asks meanwhile. Raises the error that the guest's code raised,
        or `SandboxViolation`.
        """
        known = dict(facts or {})
        if self.dropped:
            known["dropped"], self.dropped = self.dropped, []
        with self._watched():
            self._send(Message(kind, known, tensors or {}))
            while (message := self._receive()).kind in ("score", "progress"):
                self._send(self._served(answer, message))
        self._guest.note(message.names("attempts"))
        if message.kind == "error" or self._refused is not None:
            self._raise(message)
        return message

    def _served(self, answer: Answer, message: Message) -> Message:
        """Answer a question of the guest.

        When the query budget is exceeded, the guest gets a refusal, and the error is raised here after its reply, even
        if the plugin catches the refusal.
        """
        try:
            return answer(message)
        except QueryBudgetExceeded as error:
            self._refused = error
            return Message("refused", {"type": "QueryBudgetExceeded", "text": str(error)})

    _refused: QueryBudgetExceeded | None = None

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
        """Ask which functions were replaced inside, note them, and close."""
        if not self.closed:
            with contextlib.suppress(HarnessError):
                reply = self.request("done")
                if names := reply.names("changed"):
                    self._guest.note([f"replaced {', '.join(names[:5])}"])
                if reply.facts.get("full"):
                    self._guest.note(["filled its folder"])
        self.close()

    def close(self) -> None:
        """Close the pipe; the process inside ends."""
        if not self.closed:
            self.closed = True
            self._channel.close()

    def __del__(self) -> None:
        self.close()

    @contextlib.contextmanager
    def _watched(self) -> Any:
        """End the guest when it breaks a rule within the block."""
        if self.closed:
            raise SandboxViolation("called after its session had ended")
        self._deadline = time.monotonic() + self._guest.spec.limits.answer_s
        try:
            yield
        except (Closed, WireError, SandboxViolation) as error:
            self.close()
            self._jail.process.poll()
            line = self._named(error)
            self._guest.note([line])
            self._guest.kill()
            raise SandboxViolation(f"{line}; it was ended") from None
        except BaseException:  # interrupted before the reply: the next request would read the wrong one
            self.close()
            self._guest.kill()
            raise

    def _named(self, error: Exception) -> str:
        if isinstance(error, WireError):
            return f"sent {error}"
        if isinstance(error, Closed):
            with contextlib.suppress(HarnessError):
                self._jail.hear()
            with contextlib.suppress(HarnessError):
                self._jail.inspect()
                words = self._jail.last_words.decode(errors="replace").strip().splitlines()[-1:]
                return " ".join(["its process ended in the middle of a call", *(f"({w[:200]})" for w in words)])
            return f"wanted more than {self._guest.spec.limits.memory_mib} MiB of memory, or too many processes"
        return str(error)

    def _send(self, message: Message) -> None:
        self._channel.send(message)

    def _receive(self) -> Message:
        message = self._channel.receive()
        self._jail.hear()
        self._deadline = time.monotonic() + self._guest.spec.limits.answer_s
        return message

    def _wait(self, fd: int, writing: bool) -> None:
        """Wait until the pipe is ready, and check the guest's limits meanwhile."""
        reading = [self._jail.errors, *([] if writing else [fd])]
        ready, able, _ = select.select(reading, [fd] if writing else [], [], POLL_S)
        if self._jail.errors in ready:
            self._jail.hear()
            if not able and fd not in ready and self._jail.process.poll() is not None:
                raise Closed
        if able or fd in ready:
            return
        self._jail.inspect()
        if time.monotonic() > self._deadline:
            raise SandboxViolation(f"did not answer within {self._guest.spec.limits.answer_s:g} s")
