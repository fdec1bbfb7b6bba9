"""Components of a submitted package, as components of this process: recipes here, behaviour in the sandbox.

A proxy has the contract, the facts and the fields of the component it stands for, so it plans, labels and keys its
cells like it. What it builds sends tensors to the sandbox; gradients come back as vector-Jacobian products.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from imharness.components.component import Component
from imharness.components.loading import Provenance, provenance
from imharness.components.registry import Registered, explain, info_class
from imharness.contracts.attack import Attack, AttackInfo, Budget, FittedAttack
from imharness.contracts.defense import Certificate, Certification, Purification
from imharness.contracts.membership import DefenderOutputs, MembershipEvaluator, MembershipQuery, MembershipRelease
from imharness.contracts.metric import DistributionMetric, FullReferenceMetric, NoReferenceMetric
from imharness.contracts.reconstruction import GradientDefense, ImagePool, ImageProtection
from imharness.errors import PluginError, Unavailable
from imharness_submissions.sandbox.calls import Remote, ask_scores
from imharness_submissions.sandbox.host import Guest
from imharness_submissions.sandbox.tensor_codec import query_tensors

Described = Mapping[str, Any]


class Sandboxed(Component):
    """What all proxies share. Without a guest it can be planned with and shown, not built."""

    guest: ClassVar[Guest | None] = None
    environment: ClassVar[str] = ""
    _facts: ClassVar[dict[str, Mapping[str, Any]]]

    def require(self) -> None:
        """Raise `Unavailable` where the submission is not running."""
        if self.guest is None:
            raise Unavailable(f"{self.info.id} is a submission that runs in the sandbox", "harness submissions run")

    def content(self) -> str:
        """Return the digest of the package: another package gives other cells, whatever version it states."""
        return self.environment

    @property
    def isolation(self) -> str:
        """What keeps the code apart."""
        return self.guest.level if self.guest is not None else ""

    def remote(self, device: torch.device, **facts: Any) -> Remote:
        """Return the component's function inside a session of its own."""
        self.require()
        assert self.guest is not None
        return Remote(self.guest, self.ref(), self.label, device, facts)


class SandboxedPurification(Sandboxed, Purification):
    """A purification whose code runs in the sandbox."""

    def build(self, device: torch.device) -> Any:
        """Return the purifier; differentiable if the component says so."""
        return self.remote(device).purifier(self.info.differentiable)


class SandboxedNoReference(Sandboxed, NoReferenceMetric):
    """A no-reference metric whose code runs in the sandbox."""

    def build(self, device: torch.device) -> Any:
        """Return the score."""
        return self.remote(device).scorer(self.info.differentiable)


class SandboxedFullReference(Sandboxed, FullReferenceMetric):
    """A full-reference metric whose code runs in the sandbox."""

    def build(self, device: torch.device) -> Any:
        """Return the score."""
        return self.remote(device).scorer(self.info.differentiable)


class SandboxedDistribution(Sandboxed, DistributionMetric):
    """A metric of sets whose code runs in the sandbox."""

    def build(self, device: torch.device) -> Any:
        """Return the score."""
        remote = self.remote(device)

        def score(images: torch.Tensor, reference: torch.Tensor) -> float:
            return float(remote.call("distribution", {"images": images, "reference": reference})["value"])

        return remote.owned(score)


class SandboxedEvaluator(Sandboxed, MembershipEvaluator):
    """A membership-inference evaluator whose code runs in the sandbox."""

    def build(self, device: torch.device) -> Any:
        """Return the evaluator."""
        remote = self.remote(device)

        def infer(query: MembershipQuery) -> torch.Tensor:
            return remote.call("membership", query_tensors(query))["scores"].to(device)

        return remote.owned(infer)


class SandboxedGradientDefense(Sandboxed, GradientDefense):
    """A defense of gradients whose code runs in the sandbox."""

    def build(self, device: torch.device) -> Any:
        """Return the defense."""
        remote = self.remote(device)
        return remote.owned(lambda gradients, rng: remote.call("gradients", gradients, rng=rng))


class SandboxedImageProtection(Sandboxed, ImageProtection):
    """A protection of private images whose code runs in the sandbox."""

    def build(self, device: torch.device) -> Any:
        """Return the protection."""
        remote = self.remote(device)

        def protect(images: torch.Tensor, targets: torch.Tensor, pool: ImagePool, rng: Any) -> Any:
            given = {"images": images, "targets": targets, "pool.images": pool.images, "pool.targets": pool.targets}
            found = remote.call("protect", given, rng=rng)
            return found["images"], found["targets"]

        return remote.owned(protect)


class SandboxedRelease(Sandboxed, MembershipRelease):
    """A release defense whose code runs in the sandbox."""

    def build(self, device: torch.device) -> Any:
        """Return the defense."""
        remote = self.remote(device)

        def release(outputs: torch.Tensor, held: DefenderOutputs, rng: torch.Generator) -> torch.Tensor:
            given = {"outputs": outputs, "held.member": held.member, "held.reference": held.reference}
            return remote.call("release", given, generator=rng)["outputs"]

        return remote.owned(release)


class SandboxedCertification(Sandboxed, Certification):
    """A certification whose code runs in the sandbox; the metric it smooths stays outside."""

    def smooth(self, device: torch.device) -> Any:
        """Return the noisy pass."""
        remote = self.remote(device, smooth=True)

        def noisy(score: Callable[[torch.Tensor], torch.Tensor], images: torch.Tensor, rng: Any) -> torch.Tensor:
            return remote.call("smooth", {"images": images}, rng=rng, answer=ask_scores(score, device))["scores"]

        return remote.owned(noisy)

    def build(self, device: torch.device) -> Any:
        """Return the certification."""
        remote = self.remote(device)

        def certify(scores: torch.Tensor, bounds: tuple[float, float]) -> Certificate:
            found = remote.call("certify", {"scores": scores}, bounds=list(bounds))
            return Certificate(*(found[name] for name in ("value", "radius", "delta", "abstained")))

        return remote.owned(certify)


class _Budgeted(Sandboxed):
    info: ClassVar[AttackInfo]

    def budget(self) -> Budget:
        """Return the budget that the component's own code states for these parameters."""
        self.require()
        assert self.guest is not None
        place = repr(sorted(self.model_dump(mode="json").items()))
        if place not in self._facts:
            session = self.guest.open()
            try:
                self._facts[place] = session.request("facts", {"ref": self.ref().model_dump(mode="json")}).facts
            finally:
                session.close()
        try:
            return Budget.model_validate(self._facts[place].get("budget", {}))
        except ValidationError as error:
            raise PluginError(f"{self.label}: budget: {explain(error)}") from None


class SandboxedAttack(_Budgeted, Attack):
    """An attack whose code runs in the sandbox; what it attacks stays outside."""

    def build(self, device: torch.device) -> Any:
        """Return the attack."""
        return self.remote(device).perturb()


class SandboxedFittedAttack(_Budgeted, FittedAttack):
    """An attack with a trained part whose code runs in the sandbox."""

    def fit(self, images: Any, target: Any, rng: Any, progress: Any) -> dict[str, torch.Tensor]:
        """Train inside; the target stays outside."""
        remote = self.remote(images.device, fit=True)
        return remote.attack_call("fit", images, target, generator=rng, progress=progress)

    def build(self, device: torch.device, fitted: Mapping[str, torch.Tensor]) -> Any:
        """Return the attack, given what `fit` returned."""
        return self.remote(device).perturb(fitted)


_PROXIES: dict[str, type[Sandboxed]] = {
    "Purification": SandboxedPurification,
    "Certification": SandboxedCertification,
    "NoReferenceMetric": SandboxedNoReference,
    "FullReferenceMetric": SandboxedFullReference,
    "DistributionMetric": SandboxedDistribution,
    "MembershipEvaluator": SandboxedEvaluator,
    "MembershipRelease": SandboxedRelease,
    "GradientDefense": SandboxedGradientDefense,
    "ImageProtection": SandboxedImageProtection,
    "Attack": SandboxedAttack,
    "FittedAttack": SandboxedFittedAttack,
}
CONTRACTS = tuple(_PROXIES)
"""The contracts whose components can run in the sandbox."""
_BOUNDS = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "exclusiveMaximum": "lt",
           "minLength": "min_length", "maxLength": "max_length", "description": "description"}  # fmt: skip
_TYPES: dict[str, Any] = {"integer": int, "number": float, "boolean": bool, "string": str, "array": tuple[Any, ...]}
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_]{0,60}$")


def proxy(facts: Described, guest: Guest | None, environment: str = "") -> Sandboxed:
    """Return the proxy of a described component; raises `PluginError` when the description makes none."""
    contract = str(facts.get("contract"))
    if contract not in _PROXIES:
        raise PluginError(f"{contract[:60]} cannot run in the sandbox; these can: {', '.join(CONTRACTS)}")
    base = _PROXIES[contract]
    try:
        name = str(facts["class"])
        if not _NAME.match(name):
            raise ValueError(f"class {name!r:.80}")
        schema, defaults = dict(facts["schema"]), dict(facts["defaults"])
        fields: dict[str, Any] = {field: _field(field, schema[field], defaults) for field in facts["parameters"]}
        made: Any = _class(name, base, fields)
        made.__doc__ = str(facts["documentation"])
        made.info = _info_of(base)(facts["info"])
        if isinstance(made.info.paper, str):
            raise ValueError(f"paper must be described, not cited as {made.info.paper!r:.80}")
        made.guest, made.environment, made._facts = guest, environment, {}
        if "fit_fields" in facts:
            made.fit_fields = tuple(str(field) for field in facts["fit_fields"])
        if "reads" in facts:
            made.reads = frozenset(facts["reads"]) & {"references", "robustness", "gradients"}
        found: Sandboxed = made.model_validate(facts["parameters"])
    except ValidationError as error:
        raise PluginError(f"description of a component: {explain(error)}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PluginError(f"description of a component: {type(error).__name__}: {error}"[:300]) from None
    return found


def _info_of(base: type[Sandboxed]) -> Any:
    found: Any = info_class(base)
    return found.model_validate


def _class(name: str, base: type[Sandboxed], fields: Mapping[str, Any]) -> Any:
    return create_model(name, __base__=base, __module__=f"imharness_submissions.sandbox.of.{name}", **fields)


def _field(name: str, schema: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
    if not _NAME.match(name):
        raise ValueError(f"field {name!r:.80}")
    kind: Any = _TYPES.get(str(schema.get("type")), Any)
    if schema.get("enum"):
        kind = Literal[tuple(schema["enum"])]
    bounds = {key: schema[name] for name, key in _BOUNDS.items() if name in schema}
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
    import_s: float = 0.0
    environment: str = ""
    """sha256 of all files of the package and what it needs; part of every key."""

    def entries(self, guest: Guest | None = None) -> list[Registered]:
        """Return the components as proxies, which can be built if a guest is given."""
        origin = Provenance(self.distribution, self.version, self.author, self.licence, self.home)
        able = [facts for facts in self.components if facts.get("contract") in _PROXIES]
        return [Registered(proxy(facts, guest, self.environment), self.distribution, origin) for facts in able]


def offer_of(guest: Guest) -> PackageDescription:
    """Ask a guest what it registers; raises `PluginError` when that is nothing, or nonsense."""
    spec = guest.spec
    found = [d for d in importlib.metadata.distributions(path=[str(spec.folder)]) if d.name == spec.distribution]
    if not found:
        raise PluginError(f"{spec.folder} holds no distribution {spec.distribution}")
    origin = provenance(found[0])
    session = guest.open()
    try:
        facts = session.request("describe").facts
    finally:
        session.close()
    try:
        unable = [
            (str(c["info"]["id"])[:100], f"a {c['contract']!s:.40} cannot run in the sandbox")
            for c in facts["components"]
            if c["contract"] not in _PROXIES
        ]
        offer = PackageDescription(
            distribution=origin.distribution, version=origin.version, author=origin.author, licence=origin.licence,
            home=origin.home, components=facts["components"], left_out=[*facts["failures"], *unable],
            import_s=facts["import_s"],
        )  # fmt: skip
    except (ValidationError, KeyError, TypeError) as error:
        raise PluginError(f"{spec.distribution}: what it says of itself cannot be read: {error}"[:400]) from None
    if not offer.entries():
        reasons = "; ".join(f"{name}: {reason}" for name, reason in offer.left_out)
        raise PluginError(f"{spec.distribution} registers no component. {reasons}"[:600])
    return offer
