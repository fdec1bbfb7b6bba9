"""Components of a submitted package, as components of this process: configurations here, behaviour in the sandbox.

A proxy has the contract, the facts and the fields of the component it stands for, so it plans, labels and keys its
tasks like it. What it builds sends tensors to the sandbox; gradients come back as vector-Jacobian products.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from imharness.components.provenance import Provenance, Registered, provenance
from imharness.components.registry import explain, info_class
from imharness.components.soundness import check_sound
from imharness.contracts.attack import Attack, AttackInfo, Budget
from imharness.contracts.call import call_of
from imharness.contracts.certification import Certification
from imharness.contracts.component import Component
from imharness.contracts.fitted_attack import FittedAttack
from imharness.contracts.purification import Purification
from imharness.contracts.values import Tensors
from imharness.errors import PluginError, Unavailable
from imharness.planning.secret import digest_of
from imharness.results.identity import digest
from imharness.testing.contracts import contracts
from imharness_submissions.sandbox.calls import ComponentSource, KeptCall, Remote
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.questions import able
from imharness_submissions.sandbox.streams import calls_of, drawn

Described = Mapping[str, Any]


class Sandboxed(Component):
    """The base of all proxies. Without a guest, a proxy can be shown and used in plans, but not built."""

    guest: ClassVar[Guest | None] = None
    environment: ClassVar[str] = ""
    module: ClassVar[str] = ""
    _facts: ClassVar[dict[str, Mapping[str, Any]]]
    """Parameters, as text -> what the component's own code derives from them."""

    def require(self) -> None:
        """Raise `Unavailable` where the submission is not running."""
        if self.guest is None:
            raise Unavailable(f"{self.info.id} is a submission that runs in the sandbox", "harness submissions run")

    def content(self) -> str:
        """Return the digest of the package: another package gives other tasks, whatever version it states.

        If the component draws random numbers, the secret from which its streams follow is part of the digest.
        """
        stream_secret = self.guest.stream_secret if self.guest is not None else ""
        if not stream_secret or not any(drawn(self, call) for call in calls_of(self)):
            return self.environment
        return digest([self.environment, digest_of(stream_secret)])

    @property
    def component_source(self) -> ComponentSource:
        """What a session needs to make the component."""
        return ComponentSource(self.ref().model_dump(mode="json"), self.module)

    @property
    def isolation(self) -> str:
        """How the package is isolated; "" without a guest."""
        return self.guest.level if self.guest is not None else ""

    def remote(self, device: torch.device, method: str = "build", fitted: Tensors | None = None) -> Any:
        """Return the function that a method of the component returns; calls of it run inside a session of their own."""
        self.require()
        assert self.guest is not None
        return Remote(self.guest, self.component_source, self.label, device, method, fitted).function(self, method)

    def build(self, device: torch.device, *fitted: Tensors) -> Any:
        """Return the component's function; `fitted` is what `build` takes beside the device."""
        return self.remote(device, "build", dict(fitted[0]) if fitted else None)


class _Smoothing(Sandboxed):
    def smooth(self, device: torch.device) -> Any:
        """Return the function that scores noisy copies of images; the metric itself stays outside."""
        return self.remote(device, "smooth")


class _Invertible(Sandboxed):
    inverse_call: ClassVar = KeptCall(Purification.inverse_call)

    def inverse(self, device: torch.device) -> Any:
        """Return the function that moves pixels back to where they were before the purification."""
        return self.remote(device, "inverse")


class _Fitted(Sandboxed):
    def fit(self, images: torch.Tensor, *further: Any) -> Tensors:
        """Train inside; what is attacked stays outside."""
        state: Tensors = self.remote(images.device, "fit")(images, *further)
        return state


class _Budgeted(Sandboxed):
    info: ClassVar[AttackInfo]

    def budget(self) -> Budget:
        """Return the budget that the component's own code states for these parameters."""
        self.require()
        assert self.guest is not None
        key = repr(sorted(self.model_dump(mode="json").items()))
        if key not in self._facts:
            session = self.guest.open(self.module)
            try:
                self._facts[key] = session.request("facts", self.component_source._asdict()).facts
            finally:
                session.close()
        try:
            return Budget.model_validate(self._facts[key].get("budget", {}))
        except ValidationError as error:
            raise PluginError(f"{self.label}: budget: {explain(error)}") from None


_FURTHER: dict[type[Component], tuple[type[Sandboxed], ...]] = {
    Certification: (_Smoothing,),
    Attack: (_Budgeted,),
    FittedAttack: (_Fitted, _Budgeted),
}
"""The contracts with more methods than `build`; a purification may have an inverse."""


def carried_contracts() -> dict[str, type[Component]]:
    """Return the contracts whose components can run in the sandbox, by name."""
    return {name: contract for name, contract in contracts().items() if able(call_of(contract))}


_BOUNDS = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "exclusiveMaximum": "lt",
           "minLength": "min_length", "maxLength": "max_length", "description": "description"}  # fmt: skip
_TYPES: dict[str, Any] = {"integer": int, "number": float, "boolean": bool, "string": str, "array": tuple[Any, ...]}
INSTALLED = (
    "who keeps the leaderboard reads its code, installs it, computes it by `harness run`, and accepts it by its id, "
    "with `harness submissions decide ID accepted`"
)
"""How what cannot run in the sandbox comes onto the leaderboard, for messages."""
MOST_COMPONENTS, LONGEST = 100, 30_000
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_]{0,60}$")


def proxy(facts: Described, guest: Guest | None, environment: str = "") -> Sandboxed:
    """Return the proxy of a described component; raises `PluginError` when the description makes none.

    `facts`: what `imharness_submissions.sandbox.describing.described` returned inside; `environment`: the digest of the
    package, see `PackageDescription.environment`.
    """
    contracts, named = carried_contracts(), str(facts.get("contract"))
    if named not in contracts:
        raise PluginError(f"{named[:60]} cannot run in the sandbox; these can: {', '.join(contracts)}")
    contract = contracts[named]
    try:
        name = str(facts["class"])
        if not _NAME.match(name):
            raise ValueError(f"class {name!r:.80}")
        schema, defaults = dict(facts["schema"]), dict(facts["defaults"])
        further = (_Invertible,) if facts.get("inverse") and contract is Purification else (Sandboxed,)
        bases = (*_FURTHER.get(contract, further), contract)
        fields: dict[str, Any] = {field: _field(field, schema[field], defaults) for field in facts["parameters"]}
        taken = sorted(field for field in fields if any(hasattr(base, field) for base in bases))
        if taken:
            raise ValueError(f"field {taken[0]!r:.80} has the name of something that every component has")
        proxy_class: Any = _class(name, bases, fields)
        proxy_class.__doc__ = str(facts["documentation"])
        proxy_class.info = _info_of(contract)(facts["info"])
        if isinstance(proxy_class.info.paper, str):
            raise ValueError(f"paper must be described, not cited as {proxy_class.info.paper!r:.80}")
        if proxy_class.info.control:
            raise ValueError("a submission cannot be a control: a winner has to be better than every control")
        proxy_class.call = KeptCall(call_of(contract))
        proxy_class.guest, proxy_class.environment, proxy_class._facts = guest, environment, {}
        proxy_class.module = str(facts.get("module", ""))
        for declared in contract.declares:
            words = [str(word) for word in facts["declares"][declared]]
            setattr(proxy_class, declared, type(getattr(contract, declared))(words))
        component: Sandboxed = proxy_class.model_validate(facts["parameters"])
        check_sound(component)
    except ValidationError as error:
        raise PluginError(f"description of a component: {explain(error)}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PluginError(f"description of a component: {type(error).__name__}: {error}"[:300]) from None
    return component


def _info_of(contract: type[Component]) -> Any:
    info_type: Any = info_class(contract)
    return info_type.model_validate


def _class(name: str, bases: tuple[type[Component], ...], fields: Mapping[str, Any]) -> Any:
    return create_model(name, __base__=bases, __module__=f"imharness_submissions.sandbox.of.{name}", **fields)


def _field(name: str, schema: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
    """Return type and default of a field, as `create_model` takes them, from its JSON schema."""
    if not _NAME.match(name):
        raise ValueError(f"field {name!r:.80}")
    kind: Any = _TYPES.get(str(schema.get("type")), Any)
    if schema.get("enum"):
        kind = Literal[tuple(schema["enum"])]
    bounds = {key: schema[word] for word, key in _BOUNDS.items() if word in schema}
    if name not in defaults:
        return kind, Field(**bounds)
    default = defaults[name]
    return kind, Field(default=tuple(default) if isinstance(default, list) else default, **bounds)


class PackageDescription(BaseModel):
    """What a submitted package registers, as it said from inside the sandbox, and what its metadata say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    distribution: str
    version: str
    author: str = ""
    licence: str = ""
    home: str = ""
    components: tuple[Mapping[str, Any], ...]
    left_out: tuple[tuple[str, str], ...] = ()
    """The components that cannot be used, by id or entry point, with the reason of each."""
    import_s: float = 0.0
    """How long the package took to be imported and to say what it registers, by the clock of the outside, s."""
    environment: str = ""
    """sha256 of all files of the package and what it needs; part of every key."""

    def entries(self, guest: Guest | None = None) -> list[Registered]:
        """Return the components as proxies, which can be built if a guest is given."""
        origin = Provenance(self.distribution, self.version, self.author, self.licence, self.home)
        contracts = carried_contracts()
        carried = [facts for facts in self.components if facts.get("contract") in contracts]
        return [Registered(proxy(facts, guest, self.environment), self.distribution, origin) for facts in carried]


def check_size(components: Any) -> None:
    """Raise `PluginError` for a description that is too long to be shown."""
    if len(components) > MOST_COMPONENTS:
        raise PluginError(f"registers {len(components)} components; at most {MOST_COMPONENTS} are taken")
    for facts in components:
        if len(json.dumps(facts)) > LONGEST:
            raise PluginError(f"describes a component in more than {LONGEST} characters")


def offer_of(guest: Guest) -> PackageDescription:
    """Ask a guest what it registers; raises `PluginError` when that is nothing, or nonsense."""
    spec = guest.spec
    distributions = [
        d for d in importlib.metadata.distributions(path=[str(spec.folder)]) if d.name == spec.distribution
    ]
    if not distributions:
        raise PluginError(f"{spec.folder} contains no distribution {spec.distribution}")
    origin = provenance(distributions[0])
    session, started = guest.open(), time.perf_counter()
    try:
        described = session.request("describe")
    finally:
        session.close()
    took, facts = time.perf_counter() - started, described.facts
    guest.import_ahead(described.names("libraries"))
    try:
        check_size(facts["components"])
        unable = [
            (str(c["info"]["id"])[:100], f"a {c['contract']!s:.40} cannot run in the sandbox; {INSTALLED}")
            for c in facts["components"]
            if c["contract"] not in carried_contracts()
        ]
        offer = PackageDescription(
            distribution=origin.distribution,
            version=origin.version,
            author=origin.author,
            licence=origin.licence,
            home=origin.home,
            components=facts["components"],
            left_out=[*facts["failures"], *unable],
            import_s=took,
        )
    except (ValidationError, KeyError, TypeError) as error:
        raise PluginError(f"{spec.distribution}: what it says of itself cannot be read: {error}"[:400]) from None
    if not offer.entries():
        reasons = "; ".join(f"{name}: {reason}" for name, reason in offer.left_out)
        raise PluginError(f"{spec.distribution} registers no component. {reasons}"[:600])
    return offer
