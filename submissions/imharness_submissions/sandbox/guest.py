"""The inside of the sandbox: a first process forks one for each session, which imports the package and serves it.

A session imports the module of the component that is asked for, and the whole package only to describe it.

The first process never runs code of the package, and does not have the package's folder on its path. A session enters
namespaces of its own, gives up what could undo that, and only then adds the folder to its path, behind all others.

The outside trusts nothing here, because this code runs in one process with the package's. It only answers requests.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nested._internal.nested_tensor  # what the first gradient of a process would import

from imharness.components.loading import GROUP, load_plugins
from imharness.components.registry import Registry, build_registry
from imharness.contracts.attack import TARGET
from imharness.contracts.call import Call, call_of
from imharness.contracts.certification import SCORER
from imharness.contracts.component import Component
from imharness.contracts.values import PROGRESS, Tensors, ValueKind
from imharness.errors import ContractError, HarnessError, QueryBudgetExceeded
from imharness.results.identity import ComponentRef
from imharness.testing.crossing import all_restored, joined, randomness
from imharness.testing.crossing import tensors as as_tensors
from imharness_submissions.sandbox import isolation, prestart
from imharness_submissions.sandbox.audit import Attempts, Namespaces
from imharness_submissions.sandbox.wire import LONGEST_ORDER, OPEN, RESULT, Channel, Closed, Message, WireError


class Stop(Exception):
    """The outside refused what was asked; the session goes on with the next request."""


class Session:
    """Serves one plugin package to the outside until the channel closes."""

    def __init__(self, channel: Channel, setup: Mapping[str, Any], names: Namespaces, expected: str) -> None:
        """Start to serve the package that `setup` names.

        Args:
            channel: to the outside.
            setup: the package's distribution and folder, and the folder of its source.
            names: the names in all namespaces before the package ran.
            expected: a module to import at once, because it will probably be asked for; "" for none.
        """
        self.channel, self._names = channel, names
        self._distribution, self._folder, self._source = setup["distribution"], setup["folder"], setup["source"]
        self.attempts = Attempts(self._folder)
        self._registries: dict[str, Registry] = {}
        if expected:
            self._registry(expected)
        self._built: dict[int, tuple[Call, Any, torch.device]] = {}
        self._graphs: dict[int, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
        self._operations: dict[str, Callable[[Message], Message]] = {
            "describe": self._describe,
            "facts": self._facts,
            "build": self._build,
            "call": self._call,
            "backward": self._backward,
            "wheel": self._wheel,
            "look": self._look,
            "done": self._done,
        }

    def serve(self) -> None:
        """Answer requests."""
        while True:
            request = self.channel.receive()
            for handle in request.facts.get("dropped", []):
                self._graphs.pop(handle, None)
            try:
                answer = self._operations[request.kind](request)
            except Stop:
                answer = Message("error", {"type": "Stop", "text": "refused by the outside"})
            except (Closed, WireError):
                raise
            except BaseException as error:
                answer = Message("error", _as_message(error))
            seen = self.attempts.pop_attempts()
            noted = {"attempts": seen} if seen else {}
            self.channel.send(Message(answer.kind, {**answer.facts, **noted}, answer.tensors))

    def _describe(self, request: Message) -> Message:
        from imharness_submissions.sandbox.describing import described

        registry = self._registry("")
        components = [
            {**described(entry.component), "module": entry.plugin.partition(":")[2]}
            for entry in registry.entries.values()
        ]
        failures = [[f.name, f.reason] for f in registry.failures]
        libraries = prestart.of_libraries(name for name in sys.modules if name not in self._names.modules)
        return Message("described", {"components": components, "failures": failures, "libraries": libraries})

    def _registry(self, module: str) -> Registry:
        """Return the components of one module of the package, or of all for an empty name."""
        if module not in self._registries:
            distributions = [
                d for d in importlib.metadata.distributions(path=[self._folder]) if d.name == self._distribution
            ]
            points = [p for d in distributions[:1] for p in d.entry_points if p.group == GROUP]
            self._registries[module] = build_registry(load_plugins(points, module))
        return self._registries[module]

    def _facts(self, request: Message) -> Message:
        from imharness_submissions.sandbox.describing import derived

        return Message("facts", derived(self._revived(request)))

    def _revived(self, request: Message) -> Component:
        registry = self._registry(str(request.facts.get("module", "")))
        return registry.revive(ComponentRef.model_validate(request.facts["ref"]))

    def _build(self, request: Message) -> Message:
        component, device = self._revived(request), torch.device(request.facts["device"])
        method = request.facts["method"]
        call, built = call_of(type(component), method), getattr(component, method)
        if not call.direct:
            fitted = [{name: t.to(device) for name, t in request.tensors.items()}] if request.facts["given"] else []
            built = built(device, *fitted)
        handle = len(self._built)
        self._built[handle] = (call, built, device)
        return Message("built", {"handle": handle})

    def _call(self, request: Message) -> Message:
        """Call a built function, and return its result with the states of random streams that it drew from.

        If the outside asks for gradients, the graph is remembered for `_backward`.
        """
        call, built, device = self._built[request.facts["built"]]
        tensors, with_gradient = dict(request.tensors), request.facts.get("grad", [])
        for name in with_gradient:
            tensors[name] = tensors[name].to(device).requires_grad_(True)
        inside = {name: kind for name, kind in call.arguments.items() if kind not in _OUTSIDE}
        inputs = all_restored(inside, tensors, device)
        rows = call.rows(inputs)
        for name, kind in call.arguments.items():
            if kind in _OUTSIDE:
                stand_in = _OUTSIDE[kind]
                inputs[name] = stand_in(self, request.facts.get(name), rows)
        with torch.set_grad_enabled(bool(with_gradient) or call.own_gradients):
            result = built(*(inputs[name] for name in call.arguments))
        outputs = joined({RESULT: as_tensors(call.returns, result)})
        facts: dict[str, Any] = {}
        if with_gradient:
            facts["handle"] = self._keep([tensors[name] for name in with_gradient], outputs)
            facts["moving"] = _moving(outputs)
        for name, kind in randomness(call).items():
            state = as_tensors(kind, inputs[name])[""]
            if not torch.equal(state, tensors[name]):
                outputs[name] = state
        return Message("result", facts, {name: t.detach() for name, t in outputs.items()})

    def _keep(self, leaves: list[torch.Tensor], outputs: Tensors) -> int:
        """Remember a graph for `_backward`, and return the number by which the outside asks for it."""
        handle = max(self._graphs, default=-1) + 1
        self._graphs[handle] = (leaves, [t for t in outputs.values() if t.requires_grad])
        return handle

    def _backward(self, request: Message) -> Message:
        leaves, outputs = self._graphs.pop(request.facts["handle"])
        upstream = [request.tensors[str(i)].to(t.device) for i, t in enumerate(outputs)]
        if any(gradient.shape != t.shape for gradient, t in zip(upstream, outputs, strict=True)):
            raise ContractError("the gradient of an answer has another shape than the answer")
        # The gradients of these sums are the same, bit for bit; torch's code for outputs of other shapes needs sympy.
        sums = [(t * gradient).sum() for t, gradient in zip(outputs, upstream, strict=True)]
        gradients = torch.autograd.grad(sums, leaves, allow_unused=True)
        return Message("gradients", {}, {str(i): g for i, g in enumerate(gradients) if g is not None})

    def _done(self, request: Message) -> Message:
        disk = os.statvfs("/tmp")
        full = disk.f_bavail < disk.f_blocks / 100
        return Message("done", {"changed": self._names.changed(), "full": full})

    def _wheel(self, request: Message) -> Message:
        from imharness_submissions.sandbox.building import build_wheel

        name, content = build_wheel(self._folder, self._source, str(request.facts["backend"]))
        return Message("wheel", {"name": name}, {"content": content})

    def _look(self, request: Message) -> Message:
        from imharness_submissions.sandbox.selftest import look

        return Message("seen", look({self.channel.reading, self.channel.writing}))

    def ask(self, kind: str, facts: Mapping[str, Any], tensors: Tensors) -> Message:
        """Ask the outside in the middle of a call."""
        self.channel.send(Message(kind, facts, tensors))
        answer = self.channel.receive()
        if answer.kind == "refused":
            if answer.facts.get("type") == "QueryBudgetExceeded":
                raise QueryBudgetExceeded(str(answer.facts.get("text")))
            raise Stop
        return answer


def _moving(outputs: Tensors) -> list[str]:
    """Return the names of the outputs that have a gradient."""
    return [name for name, t in outputs.items() if t.requires_grad]


class RemoteTarget:
    """Stands inside for the target of an attack; the metric itself, and the count of queries, stay outside."""

    def __init__(self, session: Session, facts: Mapping[str, Any], images: int) -> None:
        self.differentiable = bool(facts["differentiable"])
        self.lower, self.upper = float(facts["lower"]), float(facts["upper"])
        self._session, self._queries = session, torch.zeros(images, dtype=torch.int64)

    @property
    def queries(self) -> torch.Tensor:
        """int64 ``(N,)``: scores asked for so far, per image."""
        return self._queries.clone()

    def __call__(self, images: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """Return scores; differentiable for a white-box attack. `rows`: in training, which image each one was."""
        if self.differentiable and torch.is_grad_enabled() and images.requires_grad:
            scores: torch.Tensor = _Asked.apply(images, rows, self)
            return scores
        return self.score(images, rows, False).tensors["scores"].to(images.device)

    def score(self, images: torch.Tensor, rows: torch.Tensor | None, gradient: bool) -> Message:
        """Ask for scores, and for the gradient of each with respect to its own image."""
        sent = {"images": images} if rows is None else {"images": images, "rows": rows}
        answer = self._session.ask("score", {"gradient": gradient}, sent)
        self._queries = answer.tensors["queries"]
        return answer


class _Asked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: torch.Tensor, rows: torch.Tensor | None, target: RemoteTarget) -> torch.Tensor:
        answer = target.score(images, rows, True)
        ctx.save_for_backward(answer.tensors["gradient"].to(images.device))
        return answer.tensors["scores"].to(images.device)

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return upstream.view(-1, 1, 1, 1) * gradient, None, None


def _target(session: Session, facts: Mapping[str, Any], rows: int) -> RemoteTarget:
    return RemoteTarget(session, facts, rows)


def _scorer(session: Session, facts: object, rows: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def score(images: torch.Tensor) -> torch.Tensor:
        return session.ask("score", {"gradient": False}, {"images": images}).tensors["scores"].to(images.device)

    return score


def _progress(session: Session, facts: object, rows: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        session.ask("progress", {"done": int(done), "total": int(total)}, {})

    return progress


_OUTSIDE: dict[ValueKind, Callable[[Session, Any, int], Any]] = {
    TARGET: _target,
    SCORER: _scorer,
    PROGRESS: _progress,
}
"""The arguments that stay outside, each with a function that makes what stands for it inside.

The function takes the session, the facts of the argument in the request, and the number of rows."""


def _as_message(error: BaseException) -> dict[str, Any]:
    trace = "".join(traceback.format_exception(error))[-4000:]
    kind = type(error).__name__
    if isinstance(error, HarnessError):
        return {"type": kind, "text": str(error)[:1000], "traceback": trace, "harness": True}
    return {"type": kind, "text": str(error)[:1000], "traceback": trace}


def main() -> None:
    """Wait for sessions; the outside ends this process by closing the socket."""
    setup = json.loads(sys.argv[1])
    sys.argv[1:] = []
    control = socket.socket(fileno=os.dup(0))
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if setup["apart"]:
        isolation.protect_devices()
    isolation.limit(setup["limits"])
    torch.set_num_threads(setup["threads"])
    _rehearse(setup)
    prestart.import_ahead(setup["libraries"])
    names, dates = Namespaces(), prestart.dates()
    prestart.settle()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control.send(b"ready")
    while True:
        word, fds, _, _ = socket.recv_fds(control, LONGEST_ORDER, 3)
        if not word.startswith(OPEN):
            return
        child = isolation.forked() if setup["apart"] else os.fork()
        if child == 0:
            control.close()
            prestart.born_now(dates)
            _session(fds, setup, names, word.removeprefix(OPEN).decode())
        process = os.pidfd_open(child)
        socket.send_fds(control, [b"born"], [process])
        for fd in (*fds, process):
            os.close(fd)


def _rehearse(setup: Mapping[str, Any]) -> None:
    """End with the reason unless this machine lets a session have namespaces of its own."""
    if not setup["apart"]:
        return
    child = isolation.forked()
    if child == 0:
        try:
            isolation.enclose(setup["limits"]["folder_mib"], setup["roots"], setup["gpu"])
        except OSError as error:
            sys.stderr.write(f"sessions cannot be kept apart: {error}\n")
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)


def _session(fds: list[int], setup: Mapping[str, Any], names: Namespaces, expected: str) -> None:
    """Leave everything behind that could be shared, and serve the package; never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reading, writing, printing = fds
    for descriptor in (1, 2):
        os.dup2(printing, descriptor)
    os.close(printing)
    code = 0
    try:
        if setup["apart"]:
            isolation.enclose(setup["limits"]["folder_mib"], setup["roots"], setup["gpu"])
        _serve(Channel(reading, writing, setup["limits"]["message_mib"] << 20), setup, names, expected)
    except Closed:
        pass
    except BaseException:  # a plugin may raise anything; its process prints it and ends with 1
        code = 1
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code)


def _serve(channel: Channel, setup: Mapping[str, Any], names: Namespaces, expected: str) -> None:
    sys.path.append(setup["folder"])
    try:
        session = Session(channel, setup, names, expected)
    except BaseException as error:
        channel.receive()
        channel.send(Message("error", _as_message(error)))
        raise
    session.serve()
