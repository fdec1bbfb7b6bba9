"""Calls that go into the sandbox, looking like calls of a built component."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from imharness.errors import ContractError, HarnessError, SandboxViolation
from imharness.randomness import ImageRng
from imharness.results.identity import ComponentRef
from imharness_submissions.sandbox.host import Answer, Guest, Session
from imharness_submissions.sandbox.tensor_codec import GENERATOR, RNG, Tensors
from imharness_submissions.sandbox.wire import Message, WireError

STATE = (
    "answers otherwise when it is asked again in a fresh process: it keeps state between calls, or draws from other "
    "randomness than it is given"
)
TOLERANCE = 1e-4
"""How far an answer of a fresh process may be from the one that was given."""


class Remote:
    """A built component inside a session that belongs to one task.

    When the task ends, one of its calls is asked again in a fresh process, which must answer the same.
    """

    def __init__(
        self, guest: Guest, ref: ComponentRef, label: str, device: torch.device, facts: Mapping[str, Any]
    ) -> None:
        self.label, self.device = label, device
        self._guest, self._ref, self._extra = guest, ref, dict(facts)
        self._session: Session | None = None
        self._handle, self._fitted = 0, dict[str, torch.Tensor]()
        self._calls = 0
        self._kept: tuple[Message, Message] | None = None
        self._draw = torch.Generator()
        self._draw.seed()
        guest.remotes.add(self)

    def end(self) -> None:
        """End the session; the next call opens another."""
        session, self._session = self._session, None
        if session is not None and not session.closed:
            session.finish()

    def check_again(self) -> None:
        """Ask a call again in a fresh process; raises `ContractError` when it answers otherwise."""
        kept, self._kept, self._calls = self._kept, None, 0
        if kept is None:
            return
        request, before = kept
        session = self._guest.open()
        try:
            handle = self._built_in(session)
            after = session.request("call", {**request.facts, "built": handle, "grad": []}, request.tensors)
        finally:
            session.close()
        for name, tensor in before.tensors.items():
            other = after.tensors.get(name)
            if other is None or other.shape != tensor.shape or not _close(tensor, other):
                self._guest.note([STATE])
                raise self.blamed(ContractError(f"{self.label}: {STATE}"))

    def forget(self) -> None:
        """Drop what was kept for a check: the task failed."""
        self._kept, self._calls = None, 0

    def blamed(self, error: HarnessError) -> HarnessError:
        """Return an error that names this component."""
        error.who = self.label
        return error

    def _built_in(self, session: Session) -> int:
        facts = {"ref": self._ref.model_dump(mode="json"), "device": str(self.device), **self._extra}
        return session.request("build", facts, self._fitted).whole("handle")

    def _open(self) -> Session:
        if self._session is None or self._session.closed:
            self._session = self._guest.open()
            self._handle = self._built_in(self._session)
        return self._session

    def call(
        self,
        what: str,
        tensors: Mapping[str, torch.Tensor],
        *,
        rng: ImageRng | None = None,
        generator: torch.Generator | None = None,
        answer: Answer | None = None,
        **facts: Any,
    ) -> Tensors:
        """Call the component's function; raises what its code raised, named after the component."""
        given = dict(tensors)
        if generator is not None:
            given[GENERATOR] = generator.get_state()
        if rng is not None:
            given[RNG] = rng.states()
        found = dict(self.ask(what, given, answer, **facts).tensors)
        self.restore(rng, found.pop(RNG, None))
        self.restore(generator, found.pop(GENERATOR, None))
        return _Answered(self, {name: t.to(self.device) for name, t in found.items()})

    def restore(self, rng: ImageRng | torch.Generator | None, states: torch.Tensor | None) -> None:
        """Let randomness go on where the sandbox left it."""
        if rng is None or states is None:
            return
        try:
            rng.restore(states) if isinstance(rng, ImageRng) else rng.set_state(states.clone())
        except (RuntimeError, ValueError, TypeError):
            text = f"{self.label}: sent back random states that are none"
            raise self.blamed(SandboxViolation(text)) from None

    def ask(
        self, what: str, tensors: Mapping[str, torch.Tensor], answer: Answer | None = None, **facts: Any
    ) -> Message:
        """Call the component's function and return its answer as it came, on the CPU."""
        reduced = torch.is_autocast_enabled(self.device.type)
        request = Message("call", {"as": what, **facts, **({"reduced": True} if reduced else {})}, tensors)
        try:
            session = self._open()
            own = {**request.facts, "built": self._handle}
            found = session.request("call", own, tensors, *([] if answer is None else [answer]))
        except (SandboxViolation, WireError) as error:
            raise self.blamed(SandboxViolation(f"{self.label}: {error}")) from None
        except HarnessError as error:
            raise self.blamed(error) from None
        if answer is None:
            self._keep(request, found)
        return found

    def _keep(self, request: Message, found: Message) -> None:
        """Keep one call at random, each as likely, to be asked again; attacks are not kept, they ask back."""
        self._calls += 1
        if int(torch.randint(self._calls, (1,), generator=self._draw)) == 0:
            held = {name: t.detach().cpu().clone() for name, t in request.tensors.items()}
            facts = {name: value for name, value in request.facts.items() if name != "grad"}
            self._kept = (
                Message("call", facts, held),
                Message("result", {}, {n: t.detach() for n, t in found.tensors.items()}),
            )

    def order(self, n: int) -> torch.Tensor:
        """Return a random order of n rows."""
        return torch.randperm(n, generator=self._draw)

    def backward(self, handle: int, upstream: list[torch.Tensor], leaves: int) -> list[torch.Tensor | None]:
        """Return the vector-Jacobian product of an earlier call; the graph inside is gone then."""
        if self._session is None:
            raise SandboxViolation(f"{self.label}: the session of this gradient is gone")
        given = {str(i): t for i, t in enumerate(upstream)}
        found = self._session.request("backward", {"handle": handle}, given).tensors
        return [found[str(i)].to(self.device) if str(i) in found else None for i in range(leaves)]

    def drop(self, handle: int) -> None:
        """Say that nobody will ask for this gradient."""
        if self._session is not None:
            self._session.dropped.append(handle)

    def owned(self, function: Callable[..., Any]) -> Built:
        """Return a function that can be closed."""
        return Built(self, function)

    def purifier(self, differentiable: bool) -> Built:
        """Return a purifier."""

        def purify(images: torch.Tensor, rng: ImageRng) -> torch.Tensor:
            if not (differentiable and torch.is_grad_enabled() and images.requires_grad):
                return _by_rows(self, "purify", {"images": images}, "images", rng)
            found: torch.Tensor = _Differentiable.apply(self, "purify", "images", rng, ("images",), images)
            return found

        return self.owned(purify)

    def scorer(self, differentiable: bool) -> Built:
        """Return a metric of one image, or of an image and its reference."""

        def score(images: torch.Tensor, *reference: torch.Tensor) -> torch.Tensor:
            given = (images, *reference)
            names = ("images", "reference")[: len(given)]
            if not (differentiable and torch.is_grad_enabled() and any(t.requires_grad for t in given)):
                return _by_rows(self, "score", dict(zip(names, given, strict=True)), "scores", None)
            found: torch.Tensor = _Differentiable.apply(self, "score", "scores", None, names, *given)
            return found

        return self.owned(score)

    def perturb(self, fitted: Mapping[str, torch.Tensor] | None = None) -> Built:
        """Return an attack; `fitted` is what its training left."""
        self._fitted = dict(fitted or {})

        def attack(images: torch.Tensor, target: Any, rng: ImageRng) -> torch.Tensor:
            return self.attack_call("attack", images, target, rng=rng)["images"]

        return self.owned(attack)

    def attack_call(
        self, what: str, images: torch.Tensor, target: Any, *, progress: Any = None, **randomness: Any
    ) -> Tensors:
        """Call an attack, or its training; what it asks of the target is answered here."""
        facts = {"differentiable": target.differentiable, "lower": target.lower, "upper": target.upper}
        answer = ask_target(target, images.device, progress)
        return self.call(what, {"images": images}, answer=answer, target=facts, **randomness)


class _Answered(dict[str, torch.Tensor]):
    """Results by name; one that is missing is the component's fault."""

    def __init__(self, remote: Remote, tensors: Tensors) -> None:
        super().__init__(tensors)
        self._remote = remote

    def __missing__(self, name: str) -> torch.Tensor:
        raise self._remote.blamed(SandboxViolation(f"{self._remote.label}: answered without {name}"))


def _close(first: torch.Tensor, second: torch.Tensor) -> bool:
    if not first.is_floating_point():
        return torch.equal(first, second)
    span = max(1.0, float(first.abs().nan_to_num().max())) if first.numel() else 1.0
    return bool(torch.allclose(first, second, rtol=0, atol=TOLERANCE * span, equal_nan=True))


def _by_rows(remote: Remote, what: str, tensors: Tensors, result: str, rng: ImageRng | None) -> torch.Tensor:
    """Call with the rows in an order that says nothing: a cell's clean and attacked images cannot be told apart."""
    order = remote.order(len(tensors["images"]))
    back = torch.argsort(order)
    given = {name: t.detach().cpu()[order] for name, t in tensors.items()}
    if rng is not None:
        given[RNG] = rng.states()[order]
    found = dict(remote.ask(what, given).tensors)
    states, tensor = found.get(RNG), found.get(result, torch.empty(0))
    remote.restore(rng, states[back] if states is not None and len(states) == len(back) else states)
    return tensor[back].to(remote.device) if len(tensor) == len(back) else tensor


class Built:
    """A built component whose work is done elsewhere."""

    def __init__(self, remote: Remote, function: Callable[..., Any]) -> None:
        self.remote, self._function = remote, function

    def __call__(self, *arguments: Any) -> Any:
        """Call the component."""
        return self._function(*arguments)


class _Graph:
    """Holds a graph inside alive as long as somebody can ask for its gradient."""

    def __init__(self, remote: Remote, handle: int) -> None:
        self.remote, self.handle, self.spent = remote, handle, False

    def __del__(self) -> None:
        if not self.spent:
            self.remote.drop(self.handle)


class _Differentiable(torch.autograd.Function):
    """A call forward, and in backward the vector-Jacobian product that the sandbox returns."""

    @staticmethod
    def forward(
        ctx: Any, remote: Remote, what: str, result: str, rng: ImageRng | None, names: tuple[str, ...], *given: Any
    ) -> torch.Tensor:
        wanted = [name for name, t in zip(names, given, strict=True) if t.requires_grad]
        tensors = dict(zip(names, given, strict=True)) | ({RNG: rng.states()} if rng is not None else {})
        found = remote.ask(what, tensors, grad=wanted)
        remote.restore(rng, found.tensors.get(RNG))
        ctx.places = [i for i, t in enumerate(given) if t.requires_grad]
        ctx.shapes = [t.shape for t in given]
        ctx.graph = _Graph(remote, found.whole("handle"))
        tensor = found.tensors.get(result, torch.empty(0)).to(remote.device)
        if result not in found.names("moving"):
            ctx.mark_non_differentiable(tensor)
        return tensor

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> Any:
        ctx.graph.spent = True
        found = ctx.graph.remote.backward(ctx.graph.handle, [upstream], len(ctx.places))
        gradients: list[torch.Tensor | None] = [None] * len(ctx.shapes)
        for place, gradient in zip(ctx.places, found, strict=True):
            if gradient is not None and gradient.shape != ctx.shapes[place]:
                raise SandboxViolation("sent back a gradient of another shape than the images")
            gradients[place] = gradient
        return None, None, None, None, None, *gradients


def ask_target(target: Any, device: torch.device, progress: Any) -> Answer:
    """Answer what an attack asks: scores, with the gradient of each with respect to its own image."""

    def answer(message: Message) -> Message:
        if message.kind == "progress":
            if progress is not None:
                progress(message.whole("done"), message.whole("total", 1))
            return Message("seen")
        images = _images(message, device)
        if not message.facts.get("gradient"):
            scores = target(images)
            return Message("scores", {}, {"scores": scores, "queries": target.queries})
        if not target.differentiable:
            raise SandboxViolation("asked for the gradient of a black-box target")
        leaf = images.requires_grad_(True)
        with torch.enable_grad():
            scores = target(leaf)
            (gradient,) = torch.autograd.grad(scores.sum(), leaf)
        return Message("scores", {}, {"scores": scores, "gradient": gradient, "queries": target.queries})

    return answer


def ask_scores(score: Callable[[torch.Tensor], torch.Tensor], device: torch.device) -> Answer:
    """Answer a noisy pass that asks for scores."""

    def answer(message: Message) -> Message:
        with torch.no_grad():
            return Message("scores", {}, {"scores": score(_images(message, device))})

    return answer


def _images(message: Message, device: torch.device) -> torch.Tensor:
    images = message.tensors.get("images")
    if images is None or images.ndim != 4 or images.shape[1] != 3 or images.dtype != torch.float32:
        raise SandboxViolation("asked for scores of something that is no batch of images")
    return images.to(device)
