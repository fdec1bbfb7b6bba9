"""Simulates an accelerator on a machine without one, with tensors that claim to be on it and hold CPU values.

It is ``cuda:0``, or ``mps:0``, the GPU of a Mac, which has no float64. PyTorch's `FakeTensorMode` says on which device
the result of an operation is and which mixtures of devices it refuses. The values are computed on the CPU, so that
steps that depend on data (`item`, boolean indices, numpy) see true numbers.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from imharness.contracts.randomness import CounterRng
from imharness.errors import ContractError, Unavailable

CPU, ACCELERATOR, MAC = torch.device("cpu"), torch.device("cuda", 0), torch.device("mps", 0)
_META = torch.device("meta")
_aten = torch.ops.aten
_WAITING = frozenset(
    {_aten._local_scalar_dense, _aten.equal, _aten.nonzero, _aten.masked_select, _aten._unique2, _aten.unique_dim}
)
"""The operations that make the host wait for the accelerator."""
_DOUBLE = (torch.float64, torch.complex128)
_NESTED = (list, tuple, dict)
_WATCHED = frozenset(
    getattr(torch.Tensor, name)
    for name in ("numpy", "__array__", "tolist", "new_tensor", "__getitem__", "__setitem__", "cuda", "to")
)
"""The functions whose arguments are looked at, besides generators: all others are called as they are."""


@dataclass
class Traffic:
    """Counts of what crossed between the host and the accelerator, by the line of code that caused it."""

    to_host: Counter[str] = field(default_factory=Counter)
    to_device: Counter[str] = field(default_factory=Counter)
    waits: Counter[str] = field(default_factory=Counter)

    def clear(self) -> None:
        """Forget all counts."""
        for count in (self.to_host, self.to_device, self.waits):
            count.clear()

    def summary(self) -> str:
        """Return the counts in words and, for each kind, the line that caused most."""
        named = (("copies to the host", self.to_host), ("copies to the device", self.to_device), ("waits", self.waits))
        phrases = [f"{n.total()} {what} (most: {n.most_common(1)[0][0]})" for what, n in named if n]
        return ", ".join(phrases) or "nothing crossed between host and device"


class _Placed(torch.Tensor):
    """A tensor that claims to be on the accelerator; to PyTorch it is a meta tensor, which needs no driver."""

    tensor: torch.Tensor
    device, is_cuda, is_mps, is_meta = ACCELERATOR, True, False, False
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, tensor: torch.Tensor) -> _Placed:
        placed: _Placed = torch.Tensor._make_wrapper_subclass(
            cls,
            tensor.shape,
            strides=tensor.stride(),
            storage_offset=tensor.storage_offset(),
            dtype=tensor.dtype,
            layout=tensor.layout,
            device=_META,
        )
        placed.tensor = tensor
        return placed

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        raise ContractError(f"{func} used a tensor of the trial after it had ended")


class _PlacedOnMac(_Placed):
    """A tensor that claims to be on the GPU of a Mac."""

    device, is_cuda, is_mps = MAC, False, True


class _Generator(torch.Generator):
    """A generator that knows the device on which it draws."""

    location: torch.device

    def __new__(cls, device: torch.device | str = "cpu") -> _Generator:
        generator = super().__new__(cls)
        resolved = torch.device(device)
        generator.location = resolved if resolved.type == "cpu" else torch.device(resolved.type, 0)
        return generator

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device on which it draws."""
        return self.location


class _Calls(TorchFunctionMode):
    """Sees calls of functions of torch, before operations: adapts some of them to placed tensors, and refuses others.

    It refuses a generator on another device than the numbers that it draws, and numpy of a tensor on the accelerator.
    """

    def __init__(self, accelerator: torch.device) -> None:
        super().__init__()
        self._accelerator = accelerator

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        drawn_by = kwargs.get("generator")
        if isinstance(drawn_by, _Generator):
            like = next((x.device for x in args if isinstance(x, torch.Tensor)), CPU)
            target = _indexed(kwargs.get("device") or like, self._accelerator)
            if target != drawn_by.device:
                raise ContractError(f"{func.__name__} draws on {target} with a generator on {drawn_by.device}")
        if func not in _WATCHED:
            return func(*args, **kwargs)
        if func in (torch.Tensor.numpy, torch.Tensor.__array__) and isinstance(args[0], _Placed):
            if kwargs.get("force"):
                return args[0].detach().cpu().numpy()
            raise ContractError(f"numpy() of a tensor on {self._accelerator}; call cpu() first")
        if func is torch.Tensor.tolist and isinstance(args[0], _Placed):
            return args[0].cpu().tolist()
        if func is torch.Tensor.new_tensor and isinstance(args[0], _Placed):
            kwargs = {"dtype": args[0].dtype, "device": self._accelerator, **kwargs}
            func, args = torch.tensor, args[1:]
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and isinstance(args[0], _Placed):
            args = (args[0], _index(args[1], self._accelerator), *args[2:])
        if func is torch.Tensor.cuda:
            func, args, kwargs = torch.Tensor.to, (args[0], self._accelerator), {}
        if func is torch.Tensor.to:
            # A tensor that is already there stays the same; for another, "cuda" without a number would start CUDA.
            there = _META if isinstance(args[0], _Placed) else self._accelerator
            args = [there if isinstance(x, torch.device | str) and self._is_there(x) else x for x in args]
            kwargs = {k: there if k == "device" and x and self._is_there(x) else x for k, x in kwargs.items()}
        return func(*args, **kwargs)

    def _is_there(self, device: torch.device | str) -> bool:
        return _indexed(device, self._accelerator) == self._accelerator


class _Operations(TorchDispatchMode):
    """Computes operations of the simulated accelerator on the CPU, and refuses mixtures of devices."""

    _mode_key = torch._C._TorchDispatchModeKey.FAKE
    """Keeps PyTorch from starting CUDA."""

    def __init__(self, traffic: Traffic, accelerator: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._traffic, self._oracle, self._accelerator = traffic, FakeTensorMode(), accelerator

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Say that nothing here is compiled, so that PyTorch need not keep its compiler from each operation."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        requested = kwargs.get("device")
        tensors = _tensors((*args, *kwargs.values()))
        placed = any(isinstance(x, _Placed) for x in tensors)
        if not placed and (requested is None or _indexed(requested, self._accelerator) != self._accelerator):
            return func(*args, **kwargs)
        self._note(func, args, requested, placed)
        devices = self._result_devices(func, tensors, args, kwargs, requested)
        callers = {id(_unwrapped(x)): x for x in tensors}
        cpu_args, cpu_kwargs = _changed((args, kwargs), _unwrapped)
        if any(x.is_meta for x in tensors if not isinstance(x, _Placed)):
            raise Unavailable(f"{func} got a tensor without values, which the simulated accelerator cannot follow")
        if requested is not None:
            cpu_kwargs["device"] = CPU
        with torch._C._AutoDispatchBelowAutograd():
            result = func(*cpu_args, **cpu_kwargs)
        if torch.Tag.inplace_view in func.tags:  # the shape that the wrapper claims changes, too
            with no_dispatch():
                func(*args, **kwargs)
        return self._returned(result, devices, callers)

    def _note(self, func: Any, args: Sequence[Any], requested: Any, placed: bool) -> None:
        """Count an operation that copies between host and accelerator, or waits.

        `requested`: its device argument. `placed`: whether one of its tensors is on the accelerator.
        """
        packet, traffic = func._overloadpacket, self._traffic
        if packet in _WAITING:
            count = traffic.waits
        elif (
            packet is _aten._to_copy
            and requested is not None
            and placed != (_indexed(requested, self._accelerator) == self._accelerator)
        ):
            count = traffic.to_host if placed else traffic.to_device
        elif packet is _aten.copy_ and isinstance(args[0], _Placed) != isinstance(args[1], _Placed):
            count = traffic.to_device if isinstance(args[0], _Placed) else traffic.to_host
        else:
            return
        line = _culprit()
        if line:
            count[line] += 1

    def _result_devices(
        self, func: Any, tensors: list[torch.Tensor], args: Sequence[Any], kwargs: dict[str, Any], requested: Any
    ) -> list[torch.device]:
        """Return the device of each tensor of the result; the last device also counts for all further tensors."""
        if requested is None and all(isinstance(x, _Placed) for x in tensors):
            return [self._accelerator]
        fakes, options = _changed((args, kwargs), lambda x: self._fake(x) if isinstance(x, torch.Tensor) else x)
        if requested is not None:
            options["device"] = _indexed(requested, self._accelerator)
        try:
            with self._oracle:
                outcome = func(*fakes, **options)
        except Exception:  # it depends on values or has no rule: all but scalars must be on one device
            devices = {x.device for x in tensors if x.ndim or x.device != CPU} or {CPU}
            if len(devices) > 1:
                line, names = _culprit(), " and ".join(sorted(map(str, devices)))
                raise ContractError(f"{f'{line}: ' if line else ''}{func} got tensors on {names}") from None
            return list(devices) if requested is None else [_indexed(requested, self._accelerator)]
        return [x.device for x in _tensors((outcome,))] or [self._accelerator]

    def _fake(self, x: torch.Tensor) -> FakeTensor:
        shell = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
        return FakeTensor(self._oracle, shell, x.device)

    def _returned(self, result: Any, devices: list[torch.device], callers: Mapping[int, Any]) -> Any:
        """Return a result with its tensors on their devices.

        A tensor that was changed in place is returned as the object that the caller passed. `callers`: id of a tensor
        with values -> that object, which is a wrapper if it is on the accelerator.
        """
        remaining = iter(devices)

        def on_its_device(x: Any) -> Any:
            if not isinstance(x, torch.Tensor):
                return x
            device = next(remaining, devices[-1])
            if id(x) in callers:
                return callers[id(x)]
            return self._placed(x) if device == self._accelerator else x

        return _changed(result, on_its_device)

    def _placed(self, tensor: torch.Tensor) -> _Placed:
        if self._accelerator != MAC:
            return _Placed(tensor)
        if tensor.dtype in _DOUBLE:
            raise ContractError(
                f"{MAC} has no {str(tensor.dtype).removeprefix('torch.')}; {_culprit() or 'a network'} uses it"
            )
        return _PlacedOnMac(tensor)


def _unwrapped(x: Any) -> Any:
    return x.tensor if isinstance(x, _Placed) else x


def _tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    """Return the tensors among values and in their lists, tuples and dicts: operations take and return no others."""
    tensors = list[torch.Tensor]()
    for value in values:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, _NESTED):
            tensors += _tensors(value.values() if isinstance(value, dict) else value)
    return tensors


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return lists, tuples and dicts with each value that they hold changed."""
    if isinstance(value, dict):
        return {
            name: _changed(item, change) if isinstance(item, _NESTED) else change(item) for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        changed = [_changed(item, change) if isinstance(item, _NESTED) else change(item) for item in value]
        return tuple(changed) if isinstance(value, tuple) else changed
    return change(value)


def _index(index: Any, device: torch.device) -> Any:
    """Return an index with its lists as tensors on the accelerator; PyTorch would make tensors without values."""
    if isinstance(index, tuple):
        return tuple(_index(item, device) for item in index)
    if isinstance(index, list | range) and all(isinstance(x, int) for x in index):
        return torch.tensor(list(index), dtype=None if index else torch.long, device=device)
    return index


def _indexed(device: torch.device | str, accelerator: torch.device) -> torch.device:
    """Return a device, with its number if it is the simulated one.

    That is the case for its type, and for ``meta``, which is the type that PyTorch sees of a placed tensor.
    """
    requested = torch.device(device)
    return accelerator if requested.type in (accelerator.type, "meta") else requested


def _culprit() -> str:
    """Return the nearest line of code that is not PyTorch's, as ``file.py:12``.

    Returns "" if that line is the suite's, if a network is being moved or loaded, which happens once for each, or if
    the streams of a batch start, for which nobody waits.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name == "torch.nn.modules.module" and frame.f_code.co_name in ("_apply", "_load_from_state_dict"):
            return ""
        if frame.f_code is CounterRng._started.__code__:
            return ""
        if name.partition(".")[0] != "torch" and name != __name__:
            internal = name.startswith("imharness.testing.")
            return "" if internal else f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def prepare() -> None:
    """Import what the first operation on the simulated accelerator would import, in about 2 s.

    Call it before a trial, whose time limit might interrupt the import, and before this process is copied, because each
    copy would import it again. It is not needed for components that run in other processes.
    """
    import torch._dynamo  # noqa: F401


@contextmanager
def acted_accelerator(accelerator: torch.device = ACCELERATOR) -> Iterator[Traffic]:
    """Let the block use ``cuda:0``, or ``mps:0``, on a machine without one; yields what crosses to it and back.

    Inside the block, `ContractError` is raised if tensors, or a generator and what it draws, are on two devices, and if
    a tensor on ``mps:0`` has a type that is not there.
    """
    traffic, overwrites = Traffic(), torch.__future__.get_overwrite_module_params_on_conversion()
    lifts = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with ExitStack() as stack:
            stack.enter_context(patch.object(torch, "Generator", _Generator))
            stack.enter_context(_Calls(accelerator))
            stack.enter_context(_Operations(traffic, accelerator))
            yield traffic
    finally:
        torch._C._set_only_lift_cpu_tensors(lifts)
        torch.__future__.set_overwrite_module_params_on_conversion(overwrites)
