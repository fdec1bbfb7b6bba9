"""Makes components of a track's contracts from objects of a notebook or script, for one evaluation.

The parameters of a component are data, so that a plan can be pure; the object itself stays in this process, as an
attribute of a class that is made for it. Results depend on the object through the text that `content` returns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from pydantic import ValidationError

from imharness.components.provenance import Provenance, Registered
from imharness.components.registry import explain, info_class, installed
from imharness.contracts.attack import Attack, AttackInfo, Budget, Target
from imharness.contracts.call import Call, Data
from imharness.contracts.component import Component, Info
from imharness.contracts.full_reference_metric import FullReferenceMetric
from imharness.contracts.gradient_defense import GradientDefense
from imharness.contracts.image_dataset import ImageDataset, ImageSet
from imharness.contracts.membership_evaluator import MembershipEvaluator, MembershipQuery
from imharness.contracts.membership_release import DefenderOutputs, MembershipDefenseInfo, MembershipRelease
from imharness.contracts.metric import MetricInfo
from imharness.contracts.metric_defense import DefenseInfo
from imharness.contracts.near_duplicates import by_looks, thumbnails
from imharness.contracts.no_reference_metric import NoReferenceMetric
from imharness.contracts.purification import Purification
from imharness.contracts.randomness import ImageRng
from imharness.contracts.reconstruction_attack import ReconstructionAttack
from imharness.contracts.track import Progress
from imharness.contracts.values import SCORES, Gradients, Images, Scores
from imharness.errors import ContractError, UsageError
from imharness.notebook.arguments import short
from imharness.notebook.objects import UserObject, built, called
from imharness.notebook.outputs import output_of
from imharness.notebook.randomness import watched
from imharness.results.identity import LOCAL, digest
from imharness.results.storage import sha256_of

ALIKE: Mapping[str, Mapping[str, Any]] = {"weak": {}, "medium": {}, "strong": {}}
"""Your own attack has only one strength, whatever it is called."""
NOBODY = "nobody judged these images"


class _Local(Component):
    """What all components of this module share: the object, and a digest that stands for its code and state."""

    user_object: ClassVar[UserObject]
    identity: ClassVar[str]

    def content(self) -> str:
        """Return the digest that stands for the object."""
        return self.identity

    def function(self, device: torch.device, least: int) -> Callable[..., Any]:
        """Return the function that computes; errors that it raises name this component.

        The object gets as many arguments as it requires, but at least `least`.
        """
        function = built(self.user_object.function, device)

        def run(*arguments: Any) -> Any:
            try:
                with watched(self.user_object.kind, self.label):
                    return called(function, arguments, least)
            except Exception as error:
                if not getattr(error, "who", ""):
                    error.who = self.label  # type: ignore[attr-defined]
                raise

        return run


class LocalPurification(_Local, Purification):
    """A defense of images from a notebook or script."""

    def build(self, device: torch.device) -> Callable[[Images, ImageRng], Images]:
        return self.function(device, 1 + self.info.random)


class LocalGradientDefense(_Local, GradientDefense):
    """A defense of gradients from a notebook or script."""

    def build(self, device: torch.device) -> Callable[[Gradients, ImageRng], Gradients]:
        return self.function(device, 1 + bool(self.user_object.facts["random"]))


class LocalRelease(_Local, MembershipRelease):
    """A defense of a model's outputs from a notebook or script."""

    def build(self, device: torch.device) -> Callable[[torch.Tensor, DefenderOutputs, torch.Generator], torch.Tensor]:
        return self.function(device, 3 if self.user_object.facts["random"] else 1)


class LocalNoReference(_Local, NoReferenceMetric):
    """A metric of single images from a notebook or script."""

    def build(self, device: torch.device) -> Callable[[Images], Scores]:
        function = self.function(device, 1)
        return lambda images: _scores(function(images), len(images), images.device)


class LocalFullReference(_Local, FullReferenceMetric):
    """A metric of images and references from a notebook or script."""

    def build(self, device: torch.device) -> Callable[[Images, Images], Scores]:
        function = self.function(device, 2)
        return lambda images, reference: _scores(function(images, reference), len(images), images.device)


class LocalAttack(_Local, Attack):
    """An attack on metrics from a notebook or script."""

    def budget(self) -> Budget:
        """Return the declared budget."""
        return Budget(radius=self.user_object.facts["radius"], queries=self.user_object.facts["queries"])

    def build(self, device: torch.device) -> Callable[[Images, Target, ImageRng], Images]:
        return self.function(device, 2)


class LocalReconstruction(_Local, ReconstructionAttack):
    """A reconstruction attack from a notebook or script."""

    def build(
        self, device: torch.device
    ) -> Callable[[Gradients, torch.nn.Module, tuple[int, int, int], ImageRng, Progress], Images]:
        return self.function(device, 3)


class LocalEvaluator(_Local, MembershipEvaluator):
    """A membership evaluator from a notebook or script."""

    def build(self, device: torch.device) -> Callable[[MembershipQuery], Scores]:
        function = self.function(device, 1)
        return lambda query: _scores(function(query), len(query.target_labels), query.target_labels.device)


class LocalImages(ImageDataset):
    """Images from a notebook or script."""

    info = Info(id=f"{LOCAL}/images", version="2")
    pixels: ClassVar[npt.NDArray[np.uint8]]
    identity: ClassVar[str]

    def content(self) -> str:
        """Return the digest of the images."""
        return self.identity

    def build(self, device: torch.device) -> ImageSet:
        """Return the images, image-0000, image-0001 and so on; those that look alike are of one photograph."""
        n, _, height, width = self.pixels.shape
        names = tuple(f"image-{i:04}" for i in range(n))
        images = (torch.from_numpy(image[None]).float() / 255 for image in self.pixels)
        looks = by_looks(names, lambda: thumbnails(images))
        if looks.sentence:
            warnings.warn(
                f"{looks.sentence}; if that is wrong, give a folder with mos.csv, which says it", stacklevel=2
            )
        return ImageSet(
            names,
            ((height, width),) * n,
            lambda places: torch.from_numpy(self.pixels[list(places)]).float() / 255,
            {"mos": np.full(n, np.nan), "reference": np.array(names), "photograph": np.array(looks.photographs)},
            NOBODY,
        )


_LOCAL: Mapping[type[Component], type[_Local]] = {
    Attack: LocalAttack,
    FullReferenceMetric: LocalFullReference,
    GradientDefense: LocalGradientDefense,
    MembershipEvaluator: LocalEvaluator,
    MembershipRelease: LocalRelease,
    NoReferenceMetric: LocalNoReference,
    Purification: LocalPurification,
    ReconstructionAttack: LocalReconstruction,
}
"""The contracts that an object of a notebook can have, and the class for each."""


def component_of(user_object: UserObject, track: str, identity: str) -> Registered:
    """Return an object as a component of a track; `identity` stands for its code and state.

    Raises `UsageError` if the track has no use for such an object.
    """
    wanted = installed().track(track).own_objects
    if wanted and user_object.kind not in wanted:
        raise UsageError(
            f"objects: track {track} does not take your own {user_object.kind}; it takes: {', '.join(sorted(wanted))}."
        )
    contract = wanted.get(user_object.kind)
    if contract in (FullReferenceMetric, NoReferenceMetric) and contract is not _default_contract(user_object):
        form = "without a reference: write metric(..., reference=False)"
        if contract is FullReferenceMetric:
            form = "with a reference: write metric(..., reference=True)"
        raise UsageError(f"objects: track {track} takes metrics {form}.")
    return local_component(user_object, contract, identity)


def _default_contract(user_object: UserObject) -> type[Component]:
    """Return the contract that an object has by its kind, and a metric by whether it compares with a reference."""
    if user_object.kind == "metric":
        return FullReferenceMetric if user_object.facts["reference"] else NoReferenceMetric
    return {"defense": Purification, "attack": Attack, "evaluator": MembershipEvaluator}[user_object.kind]


def local_component(user_object: UserObject, wanted: type[Component] | None, identity: str) -> Registered:
    """Return an object as a component of a contract, by default of the one that it declares."""
    contract = _class_for(wanted or _default_contract(user_object))
    about = f"{(contract.__doc__ or '').rstrip('.')}: {user_object.name}."
    identity_with_facts = digest([identity, user_object.kind, dict(user_object.facts)])
    component_class = type(
        f"UserObject{user_object.kind.title()}",
        (contract,),
        {
            "__doc__": about,
            "__module__": __name__,
            "user_object": user_object,
            "identity": identity_with_facts,
            "info": _info(user_object, contract),
        },
    )
    return Registered(component_class(), LOCAL, Provenance(LOCAL, ""))


def _class_for(contract: type[Component]) -> type[_Local]:
    """Return the class for a notebook's objects of a contract.

    For a contract of another package a class is made, which calls the object with the arguments of the contract's
    `call`. Raises `UsageError` for a contract that needs more than one function, or data.
    """
    if contract in _LOCAL:
        return _LOCAL[contract]
    call, methods = contract.call, set(getattr(contract, "__abstractmethods__", ()))
    if not isinstance(call, Call) or isinstance(call, Data) or methods - {"build"}:
        raise UsageError(f"objects: a {contract.kind} of the contract {contract.__name__} has to be a plugin.")

    def build(self: _Local, device: torch.device) -> Callable[..., Any]:
        function = self.function(device, len(call.arguments))
        if call.returns is not SCORES:
            return function
        return lambda *arguments: _scores(function(*arguments), call.rows(call.named_arguments(arguments)), device)

    body = {"__doc__": f"{contract.__name__} from a notebook or script.", "__module__": __name__, "build": build}
    return type(f"Local{contract.__name__}", (_Local, contract), body)


def images_of(pixels: npt.NDArray[np.uint8]) -> Registered:
    """Return images, uint8 ``(n, 3, H, W)``, as a data set."""
    identity = digest([pixels.shape, sha256_of(pixels.tobytes())])
    members = {"__doc__": LocalImages.__doc__, "__module__": __name__, "pixels": pixels, "identity": identity}
    return Registered(type("OwnImages", (LocalImages,), members)(), LOCAL, Provenance(LOCAL, ""))


def _info(user_object: UserObject, contract: type[_Local]) -> Info:
    """Return the `info` of an object's component, from the facts that the user declared."""
    named: dict[str, Any] = {"id": f"{LOCAL}/{user_object.name}", "version": "1"}
    facts = user_object.facts
    if user_object.kind == "metric":
        metric_facts = {name: facts[name] for name in ("bounds", "higher_means", "differentiable")}
        return MetricInfo(**named, **metric_facts, labelled="an object of this session, measured here alone")
    if contract is LocalPurification:
        return DefenseInfo(**named, group="local", differentiable=facts["differentiable"], random=facts["random"])
    if contract is LocalRelease:
        return MembershipDefenseInfo(**named)
    if contract is LocalAttack:
        return AttackInfo(**named, access=facts["access"], norm=facts["norm"], strengths=ALIKE)
    if contract in _LOCAL.values():
        return Info(**named)
    info: type[Info] = info_class(contract)
    try:
        return info(**named, **{name: value for name, value in facts.items() if name in info.model_fields})
    except ValidationError as error:
        raise UsageError(
            f"objects: a {user_object.kind} of this track has to be a plugin: {explain(error, info)}"
        ) from None


def _scores(output: Any, n: int, device: torch.device) -> Scores:
    """Return scores ``(n,)`` on the device from a tensor or an array ``(n,)`` or ``(n, 1)``."""
    alone = output_of(output, "its function", dimensions=1)
    try:
        scores = torch.as_tensor(alone)
    except (TypeError, ValueError, RuntimeError):
        raise ContractError(f"expected {n} scores, one per row, got {short(alone)}") from None
    if scores.numel() != n:
        mean = "; it is one number for all rows, so turn its mean off, as with reduction='none'"
        raise ContractError(
            f"expected {n} scores, one per row, got shape {tuple(scores.shape)}{mean if scores.numel() == 1 else ''}"
        )
    return scores.reshape(n).float().to(device)
