"""The checks of defenses of private data: shared gradients, private images, and outputs that are released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import scipy
import torch
import torch.nn.functional as F
from torch.linalg import vector_norm

from imharness.contracts.gradient_defense import GradientDefense
from imharness.contracts.image_protection import ImageProtection
from imharness.contracts.membership_release import MembershipRelease
from imharness.contracts.randomness import derive_seed, generator
from imharness.errors import ContractError
from imharness.testing import samples
from imharness.testing.crossing import within
from imharness.testing.probe import Inputs, OwnCheck, Probe

TRAINED, SHARED = (0.25, 0.5, 1.0), (1.5, 3.0, 10.0, 30.0)
"""Norms of gradients as a training gives them to a defense, which are 1 at most, and as they are shared."""
TURNED = 0.3
"""How much less alike a result may be to a larger gradient, as a cosine: clipped to its signs it loses .2."""
SHOWN = 0.2
"""The least share of a change of a private image that has to be seen in what replaces it."""
ROWS = (90, 161)
"""How many members, and as many other rows, are asked about, drawn; the defender holds as many rows of each kind."""
CLASSES = (5, 6, 7, 8, 10, 12, 20, 30)
"""Numbers of classes that rows are drawn with; among fewer, another row of the same class is too near to tell."""
SURER = (0.0, 1.5)
"""By how much the label of a member has a larger logit than that of another row: an overfit model is surer of members,
and a look-up that goes by that leaves random outputs alone."""
NEAR = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3)
"""How far near copies of outputs lie from them, as the standard deviation of noise on the logarithms."""
JUMP, LEVEL = 0.1, 1e-4
"""A look-up of members shows where the answers for a row and its near copy are further apart for members than for other
rows: by a mean of `JUMP`, as a sum over classes, and by the rank-sum test at `LEVEL`."""
SUM = 0.5
"""How far the sum of probabilities may lie from 1; they may be rounded, and many small ones to 0."""


class GradientDefenseProbe(Probe):
    component: GradientDefense

    def bare(self) -> Mapping[str, Inputs]:
        usual = self.inputs(2)
        return {
            what: {f"gradients.{name}": x for name, x in gradients.items()}
            for what, gradients in samples.bare_gradients(within(usual, "gradients")).items()
        }

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "protects gradients that train no less than those that are shared", self._alike

    def _alike(self) -> str:
        """Compare results with gradients of the norms of training and of sharing: all else that is given is the same.

        Noise, pruning and rounding change large gradients no more than small ones, as a share of them.
        """
        inputs = self.inputs(4)
        trained, shared = ([self._cosine(inputs, norm) for norm in norms] for norms in (TRAINED, SHARED))
        if min(shared) < max(trained) - TURNED:
            raise ContractError(
                f"a gradient of norm 1 at most, as in training, comes back with cosine {max(trained):.2f}, a larger "
                f"one, as it is shared, with {min(shared):.2f}: what trains the model is not what is protected"
            )
        return f"cosine {min(trained):.2f} or more for small gradients, {min(shared):.2f} or more for large ones"

    def _cosine(self, inputs: Inputs, norm: float) -> float:
        rows = torch.cat([x.flatten(1) for x in inputs.values()], dim=1)
        scale = norm / vector_norm(rows, dim=1)
        scaled = {name: x * scale.view(-1, *[1] * (x.ndim - 1)) for name, x in inputs.items()}
        result = self.tensor(self.built, scaled, self.seeds(len(rows)))
        return float(F.cosine_similarity(result.flatten(1), rows, dim=1).mean())


class ImageProtectionProbe(Probe):
    component: ImageProtection

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "protects the private image itself", self._private

    def _private(self) -> str:
        """Change the private images alone: what replaces them has to change, too.

        Who shows another image of the pool in their place protects them at the cost of that one.
        """
        inputs = self.inputs(4)
        other = {**inputs, "images": 1 - inputs["images"]}
        first, second = (self._images(batch) for batch in (inputs, other))
        share = float(vector_norm(first - second) / vector_norm(inputs["images"] - other["images"]))
        if share < SHOWN:
            raise ContractError(
                f"only {share:.2f} of a change of the private image is seen in what replaces it, at least {SHOWN:g} "
                "has to be: another image of the pool stands in its place"
            )
        return f"{share:.2f} of a change of the private image is seen"

    def _images(self, inputs: Inputs) -> torch.Tensor:
        images, _ = self.call(self.built, inputs, self.seeds(len(inputs["images"])))
        return torch.as_tensor(images).flatten(1)


class ReleaseProbe(Probe):
    component: MembershipRelease

    def bare(self) -> Mapping[str, Inputs]:
        usual = self.inputs(12)
        kinds = {name: samples.bare_outputs(x) for name, x in usual.items()}
        return {what: {name: tensors[what] for name, tensors in kinds.items()} for what in kinds["outputs"]}

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "gives probabilities of sum 1", self._sums
        yield "answers for members as for near copies of them", self._members

    def _members(self) -> str:
        """Ask about members, other rows, and near copies of both, with the same draws.

        Noise, rounding and coarser answers jump for all rows alike. Who recognises members by their outputs, and
        answers for them with those of others, jumps for members alone, and hides nothing that the model gives away.
        """
        return f"at most {max(map(self._jump, SURER)):.2g} between the answers for a member and for a near copy"

    def _jump(self, surer: float) -> float:
        """Return how far answers for members and for near copies of them are apart at most, where nothing is wrong."""
        rng, most = generator(derive_seed("release", self.seed, surer)), 0.0
        count, which = (int(torch.randint(*limits, (), generator=rng)) for limits in (ROWS, (0, len(CLASSES))))
        member_rows, reference, others = (samples.surer(count, CLASSES[which], size, rng) for size in (surer, 0.0, 0.0))
        base_inputs, rows = {"held.member": member_rows, "held.reference": reference}, torch.cat([member_rows, others])
        answers = self._answers(base_inputs, rows)
        for size in NEAR:
            noise = size * torch.randn(rows.shape, generator=torch.Generator().manual_seed(self.seed))
            near = self._answers(base_inputs, (rows.clamp(min=1e-30).log() + noise).softmax(dim=1))
            members, rest = (answers - near).abs().sum(dim=1).double().chunk(2)
            member_distance, other = float(members.mean()), float(rest.mean())
            if (
                member_distance > other + JUMP
                and scipy.stats.mannwhitneyu(members, rest, alternative="greater").pvalue < LEVEL
            ):
                raise ContractError(
                    f"the answers for members and for near copies of them are {member_distance:.2f} apart, for "
                    "other rows "
                    f"{other:.2g}: members are looked up, and what is answered for them is not what the model says"
                )
            most = max(most, member_distance)
        return most

    def _answers(self, inputs: Inputs, rows: torch.Tensor) -> torch.Tensor:
        return self.tensor(self.built, {**inputs, "outputs": rows}, self.seeds(len(rows)))

    def _sums(self) -> str:
        inputs = self.inputs(12)
        sums = self.tensor(self.built, inputs, self.seeds(12)).sum(dim=1)
        worst = float(sums[(sums - 1).abs().argmax()])
        if abs(worst - 1) > SUM:
            raise ContractError(f"the probabilities of a row have the sum {worst:.3g}; divide them by their sum")
        return f"sums from {float(sums.min()):.3g} to {float(sums.max()):.3g}"
