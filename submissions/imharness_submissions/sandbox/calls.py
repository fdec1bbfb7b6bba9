"""Calls of a component that runs in the sandbox; for the caller they look like calls of a built component.

There are two sorts of calls: those whose result is *kept*, as it goes into a table, and those of an attack that
*searches*. A package must not be able to tell them apart, because it could be honest in one sort alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from imharness.contracts.call import Call, call_of
from imharness.contracts.component import Component
from imharness.contracts.randomness import ImageRng
from imharness.contracts.values import ImageBatch, Randomness, Tensors
from imharness.errors import ContractError, HarnessError, SandboxViolation
from imharness.testing.crossing import all_tensors, put_back, randomness, restored, within
from imharness_submissions.sandbox.host import Answer, Guest, Session
from imharness_submissions.sandbox.questions import answering, carried, outside_arguments, pixels
from imharness_submissions.sandbox.recheck import STATE, Held
from imharness_submissions.sandbox.row_isolation import Lanes
from imharness_submissions.sandbox.streams import drawn, hidden_states
from imharness_submissions.sandbox.wire import RESULT, Message, WireError

SEARCH = -1
"""The lane (see `row_isolation`) of all calls of searches, which share one session."""


class ComponentSource(NamedTuple):
    """What a session needs to make a component: a reference to it, and the module that defines it, or ""."""

    ref: Mapping[str, Any]
    module: str


class Remote:
    """A built component in the sessions of one task.

    - The rows of calls whose results are kept are spread over sessions, so that none sees two versions of an image; all
      calls of searches share one session.
    - When the task ends, one call of either sort is repeated in a fresh session, with some of its rows in another
      order. The answer and the gradient must be the same.
    - Random streams that a component draws from follow from those of the harness and from a secret, so that nobody
      knows them in advance. A purification that says that it is not random gets one stream for all images, which tells
      it nothing.
    - A component that says that it is differentiable records a gradient in every call, whether it is wanted or not, and
      precision is never reduced inside. So a call whose result is kept looks like one of a search.
    """

    def __init__(
        self,
        guest: Guest,
        source: ComponentSource,
        label: str,
        device: torch.device,
        method: str,
        fitted: Tensors | None,
    ) -> None:
        self.label, self.device = label, device
        self._guest, self._source, self._method, self._fitted = guest, source, method, fitted
        self._sessions: dict[int, tuple[Session, int]] = {}
        """Lane -> its session, and the handle of the component that is built there."""
        self._lanes = Lanes(guest.stream_secret)
        self._calls = {True: 0, False: 0}
        """How many calls there were whose results are kept (True), and of searches (False)."""
        self._retained: dict[bool, Held] = {}
        """The call of either sort that is repeated when the task ends."""
        self._rows = frozenset[str]()
        """Names of the arguments with a row for each image."""
        self._silent = frozenset[str]()
        """Names of the arguments with streams from which nothing is drawn: all images get the same stream."""
        self._drawn = dict[str, Randomness]()
        """Names of the arguments with streams from which the component draws -> their kind."""
        self._moving = list[str]()
        """Names of the arguments for which every call records a gradient."""
        self._draw = torch.Generator()
        self._draw.seed()
        guest.remotes.add(self)

    def __del__(self) -> None:
        """Close the sessions of a component that nobody uses any more: the number of a guest's processes is limited."""
        for session, _ in self._sessions.values():
            session.close()

    def end(self) -> None:
        """End the sessions; the next call opens others."""
        sessions, self._sessions, self._lanes = self._sessions, {}, Lanes(self._guest.stream_secret)
        for session, _ in sessions.values():
            if not session.closed:
                session.finish()

    def check_again(self) -> None:
        """Repeat the calls that were chosen in fresh sessions; raises `ContractError` when an answer differs."""
        chosen_calls = self._retained
        self.forget()
        for chosen_call in chosen_calls.values():
            session = self._guest.open(self._source.module, young=True)
            try:
                if chosen_call.is_answered_otherwise(session, self._built_in(session), self._draw):
                    self._guest.note([STATE])
                    raise self.blamed(ContractError(f"{self.label}: {STATE}"))
            finally:
                session.close()

    def forget(self) -> None:
        """Drop the calls that would be repeated, because the task failed or they were repeated."""
        self._retained, self._calls = {}, {True: 0, False: 0}

    def blamed(self, error: HarnessError) -> HarnessError:
        """Return an error that names this component."""
        error.who = self.label
        return error

    def _built_in(self, session: Session) -> int:
        """Build the component in a session, and return the handle by which calls name it there."""
        facts = {
            **self._source._asdict(),
            "device": str(self.device),
            "method": self._method,
            "given": self._fitted is not None,
        }
        return session.request("build", facts, self._fitted or {}).whole("handle")

    def _open(self, lane: int) -> tuple[Session, int]:
        """Return the session of a lane, opened if there is none, and the handle of the component in it."""
        if lane not in self._sessions or self._sessions[lane][0].closed:
            session = self._guest.open(self._source.module)
            self._sessions[lane] = session, self._built_in(session)
        return self._sessions[lane]

    def function(self, component: Component, method: str = "build") -> Built:
        """Return the function that a method of the component returns; it runs in the sandbox."""
        call = call_of(type(component), method)
        if method == "build" and call.by_row and bool(getattr(component.info, "differentiable", False)):
            self._moving = [name for name, kind in call.arguments.items() if isinstance(kind, ImageBatch)]
        if call.by_row:
            self._rows = frozenset(name for name, kind in call.arguments.items() if kind.rows)
        self._drawn = drawn(component, call)
        self._silent = frozenset(randomness(call)) - self._drawn.keys()

        def run(retained: bool, arguments: tuple[Any, ...]) -> Any:
            """Call the component; `retained`: whether the result is kept."""
            inputs = call.named_arguments(arguments)
            staying = {
                name: wrap(inputs[name], self.device, pixels(inputs)) for name, wrap in outside_arguments(call).items()
            }
            tensors = all_tensors(carried(call), inputs)
            if self._moving and any(tensors[name].requires_grad for name in self._moving) and torch.is_grad_enabled():
                streams = {name: inputs[name] for name in randomness(call)}
                return _Differentiable.apply(self, call, streams, tuple(tensors), *tensors.values())
            facts = {name: outside.facts for name, outside in staying.items() if outside.facts}
            answer = answering({kind: act for outside in staying.values() for kind, act in outside.answers.items()})
            if call.by_row and answer is None:
                outputs = self._by_rows(call, tensors, call.rows(inputs), retained)
            else:
                outputs = dict(self.ask(tensors, answer, facts, retained=retained).tensors)
            for name in randomness(call):
                self.restore(inputs[name], outputs.get(name))
            return self.result(call, outputs, inputs)

        return Built(self, run)

    def result(self, call: Call, outputs: Mapping[str, torch.Tensor], arguments: Mapping[str, Any]) -> Any:
        """Return the result in the outputs of a call.

        Raises an error that names the component if the result is missing or too large.
        """
        try:
            value = restored(call.returns, within(outputs, RESULT), self.device)
        except (KeyError, TypeError, ValueError):
            raise self.blamed(SandboxViolation(f"{self.label}: answered without its result")) from None
        try:
            call.returns.check_size(value, arguments, self.label)
        except ContractError as error:
            raise self.blamed(error) from None
        return value

    def _by_rows(self, call: Call, tensors: Tensors, n: int, retained: bool) -> Tensors:
        """Call with n rows in a random order, and return the answers in the order of the rows.

        If the results are kept (`retained`), the rows are spread over sessions and requests, none of which has two
        versions of an image.
        """
        cpu_tensors = {name: t.detach().cpu() for name, t in tensors.items()}
        with_rows = {name for name in cpu_tensors if call.arguments[name.partition(".")[0]].rows}
        if retained:
            requests = self._lanes.spread(call, cpu_tensors, n)
        else:
            requests = [(SEARCH, self.order([cpu_tensors[name] for name in sorted(with_rows)]).tolist())]
        answers = []
        for lane, rows in requests:
            chunk = {name: t[rows] if name in with_rows else t for name, t in cpu_tensors.items()}
            states = {
                name: chunk[name] for name in with_rows & set(randomness(call))
            }  # as they are if nothing is drawn
            answers.append({**states, **self.ask(chunk, lane=lane).tensors})
        back = torch.argsort(torch.tensor([row for _, rows in requests for row in rows]))
        return {name: self._joined([answer.get(name) for answer in answers], back) for name in answers[0]}

    @property
    def moving(self) -> Sequence[str]:
        """Names of the arguments for which every call records a gradient."""
        return self._moving

    def order(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the order ``(n,)`` in which the rows of the next call of a search go into the sandbox."""
        return self._lanes.order([t.detach().cpu() for t in tensors], self._calls[False])

    def reordered(self, outputs: Mapping[str, torch.Tensor], back: torch.Tensor) -> Tensors:
        """Return the tensors of an answer; the rows of its result are put into the order `back` ``(n,)``."""
        return {name: self._joined([t], back) if name == RESULT else t for name, t in outputs.items()}

    def _joined(self, pieces: Sequence[torch.Tensor | None], back: torch.Tensor) -> torch.Tensor:
        """Return the answers to the requests of one call as one tensor, in the order of the call's rows.

        `back`: for each row of the call its position in the answers, which follow each other ``(n,)``.
        """
        present = [piece for piece in pieces if piece is not None]
        if len(present) == len(pieces) and all(
            piece.ndim and piece.shape[1:] == present[0].shape[1:] for piece in present
        ):
            whole = torch.cat(present)
            if len(whole) == len(back):
                return whole[back]
        raise self.blamed(SandboxViolation(f"{self.label}: answered with other rows than it was asked for"))

    def restore(self, rng: Any, states: torch.Tensor | None) -> None:
        """Set streams or a generator to the `states` that the sandbox sent back; None leaves them as they are."""
        if states is None:
            return
        try:
            put_back(rng, states)
        except (RuntimeError, ValueError, TypeError):
            text = f"{self.label}: sent back random states that are none"
            raise self.blamed(SandboxViolation(text)) from None

    def ask(
        self,
        tensors: Mapping[str, torch.Tensor],
        answer: Answer | None = None,
        facts: Mapping[str, Any] | None = None,
        *,
        retained: bool = False,
        lane: int | None = None,
        followed: bool = False,
    ) -> Message:
        """Call the component's function in one session, and return its answer unchanged, on the CPU.

        Args:
            tensors: the arguments that go into the sandbox.
            answer: a function that answers the questions that the component asks meanwhile.
            facts: facts about the arguments that stay outside.
            retained: whether the result is kept.
            lane: the lane whose session is used; by default 0 for a result that is kept, and else `SEARCH`.
            followed: whether the gradient of this call may be asked for later.
        """
        lane = lane if lane is not None else 0 if retained else SEARCH
        sent_tensors = {**tensors, **{name: self._nothing(len(tensors[name])) for name in self._silent}}
        for name, kind in self._drawn.items():
            sent_tensors[name] = hidden_states(kind, tensors[name], self._guest.stream_secret, self.device)
        request = Message("call", {**(facts or {}), **({"grad": self._moving} if self._moving else {})}, sent_tensors)
        try:
            session, handle = self._open(lane)
            call_facts = {**request.facts, "built": handle}
            reply = session.request("call", call_facts, sent_tensors, *([] if answer is None else [answer]))
            if self._moving and not followed:
                session.dropped.append(reply.whole("handle"))
        except (SandboxViolation, WireError) as error:
            raise self.blamed(SandboxViolation(f"{self.label}: {error}")) from None
        except HarnessError as error:
            raise self.blamed(error) from None
        reply = Message(reply.kind, reply.facts, {n: t for n, t in reply.tensors.items() if n not in self._silent})
        if answer is None:
            self._keep(request, reply, lane != SEARCH)
        return reply

    def _nothing(self, n: int) -> torch.Tensor:
        """Return states of streams ``(n, ...)`` that are the same for every image and call."""
        return ImageRng([0], self.device).states().expand(n, -1)

    def _keep(self, request: Message, reply: Message, retained: bool) -> None:
        """Choose one call of either sort to be repeated; each call is chosen with the same probability in the end.

        Calls in which the component asks questions, as attacks do, are not repeated.
        """
        self._calls[retained] += 1
        if int(torch.randint(self._calls[retained], (1,), generator=self._draw)) == 0:
            self._retained[retained] = Held.of(request, reply, self._rows, self._calls[retained])

    @property
    def number(self) -> int:
        """The number of the last call of a search, counted here: handles that the package sends cannot be relied on."""
        return self._calls[False]

    def backward(
        self, number: int, handle: int, upstream: list[torch.Tensor], leaves: int
    ) -> list[torch.Tensor | None]:
        """Return the vector-Jacobian product of a call: a gradient for each of `leaves` arguments, or None.

        `number`: that of the call. `handle`: its graph in the session, which is freed. `upstream`: the gradient of each
        result.
        """
        if SEARCH not in self._sessions:
            raise SandboxViolation(f"{self.label}: the session of this gradient is gone")
        upstream_tensors = {str(i): t for i, t in enumerate(upstream)}
        gradients = self._sessions[SEARCH][0].request("backward", {"handle": handle}, upstream_tensors).tensors
        if False in self._retained:
            self._retained[False].saw_gradient(number, upstream_tensors, gradients)
        return [gradients[str(i)].to(self.device) if str(i) in gradients else None for i in range(leaves)]

    def drop(self, handle: int) -> None:
        """Free a graph in the session of searches: nobody will ask for its gradient."""
        if SEARCH in self._sessions:
            self._sessions[SEARCH][0].dropped.append(handle)


class Built:
    """A built component that runs in the sandbox.

    `function`: called with whether the result is kept, and with the arguments.
    """

    def __init__(self, remote: Remote, function: Callable[[bool, tuple[Any, ...]], Any]) -> None:
        self.remote, self._function = remote, function

    def __call__(self, *arguments: Any) -> Any:
        """Call the component for an attack that searches."""
        return self._function(False, arguments)

    def to_keep(self, *arguments: Any) -> Any:
        """Call the component for a result that is kept."""
        return self._function(True, arguments)


class KeptCall(Call):
    """The call of a component in the sandbox. A function that `checked` returns makes calls whose results are kept."""

    def __init__(self, call: Call) -> None:
        vars(self).update(vars(call))
        self._call = call

    def checked(self, component: Component, function: Any) -> Callable[..., Any]:
        """Return a function whose results are kept, and checked against the contract."""
        return self._call.checked(component, function.to_keep if isinstance(function, Built) else function)

    def check(self, component: Any, result: Any, arguments: Mapping[str, Any]) -> Any:
        """Return a result as others may use it."""
        return self._call.check(component, result, arguments)


class _Graph:
    """A graph in the session of searches, which is freed when nobody can ask for its gradient any more."""

    def __init__(self, remote: Remote, handle: int) -> None:
        self.remote, self.number, self.handle, self.spent = remote, remote.number, handle, False

    def __del__(self) -> None:
        if not self.spent:
            self.remote.drop(self.handle)


class _Differentiable(torch.autograd.Function):
    """A call of a search as an operation of autograd: its gradient is the vector-Jacobian product from the sandbox.

    Rows go into the sandbox in the order ``ctx.order``; results and gradients are put back into the true order.
    """

    @staticmethod
    def forward(
        ctx: Any, remote: Remote, call: Call, streams: Mapping[str, Any], names: tuple[str, ...], *tensors: torch.Tensor
    ) -> torch.Tensor:
        ctx.rows = [call.arguments[name.partition(".")[0]].rows for name in names]
        ctx.order = remote.order([t for t, rows in zip(tensors, ctx.rows, strict=True) if rows])
        back = ctx.order.argsort()
        sent = [t[ctx.order.to(t.device)] if rows else t for t, rows in zip(tensors, ctx.rows, strict=True)]
        reply = remote.ask(dict(zip(names, sent, strict=True)), followed=True)
        for name, rng in streams.items():
            states = reply.tensors.get(name)
            remote.restore(rng, states[back] if states is not None and len(states) == len(back) else states)
        ctx.places = [names.index(name) for name in remote.moving]
        ctx.wanted = [t.requires_grad for t in tensors]
        ctx.shapes = [t.shape for t in tensors]
        ctx.graph = _Graph(remote, reply.whole("handle"))
        inputs = dict(zip(names, tensors, strict=True))
        tensor: torch.Tensor = remote.result(call, remote.reordered(reply.tensors, back), inputs)
        if RESULT not in reply.names("moving"):
            ctx.mark_non_differentiable(tensor)
        return tensor

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> Any:
        graph, order = ctx.graph, ctx.order.to(upstream.device)
        graph.spent = True
        leaf_gradients = graph.remote.backward(graph.number, graph.handle, [upstream[order]], len(ctx.places))
        gradients: list[torch.Tensor | None] = [None] * len(ctx.shapes)
        for position, gradient in zip(ctx.places, leaf_gradients, strict=True):
            if gradient is not None and gradient.shape != ctx.shapes[position]:
                raise SandboxViolation("sent back a gradient of another shape than the images")
            if gradient is not None and ctx.wanted[position]:
                gradients[position] = gradient[order.argsort()] if ctx.rows[position] else gradient
        return None, None, None, None, *gradients
