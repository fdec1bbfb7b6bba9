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
"""Norms of the gradients that a training gives to a defense, at most 1, and norms of gradients that are shared."""
TURNED = 0.3
"""How much smaller the cosine of a protected gradient with the gradient may be for large gradients than for small ones.
Clipping a gradient to its signs takes .2."""
SHOWN = 0.2
"""The least share of a change of the private image that the image that replaces it has to show."""
ROWS = (90, 161)
"""The range from which the number of member rows is drawn, the second excluded. As many other rows are drawn, and the
defender holds as many rows of each kind."""
CLASSES = (5, 6, 7, 8, 10, 12, 20, 30)
"""The numbers of classes to draw from. With fewer classes, another row of the same class would be too similar to a
near copy."""
SURER = (0.0, 1.5)
"""By how much the logit of the label is larger for members than for other rows. An overfit model is surer of members; a
look-up that recognises them by this does nothing to random outputs, so both cases are tried."""
NEAR = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3)
"""How far near copies of outputs are from the outputs: the standard deviation of noise on the log-probabilities."""
JUMP, LEVEL = 0.1, 1e-4
"""A defense looks members up if its answers for a row and for its near copy are farther apart for members than for
other rows: by more than `JUMP` in the mean (absolute differences, summed over classes), and by the rank-sum test with a
p-value below `LEVEL`."""
SUM = 0.5
"""How far the sum of the probabilities of a row may be from 1: many small ones may be rounded to 0."""


class GradientDefenseProbe(Probe):
    """Calls a gradient defense with random gradients."""

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
        """Compare what a defense does to gradients of the norms of training and of sharing, all else being equal.

        Noise, pruning and rounding change a large gradient by no larger share than a small one. A defense that changes
        large ones alone protects what is shared, and leaves what trains the model as it is.
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
        """Return the mean cosine of gradients, scaled to a norm, with what the defense makes of them."""
        rows = torch.cat([x.flatten(1) for x in inputs.values()], dim=1)
        scale = norm / vector_norm(rows, dim=1)
        scaled = {name: x * scale.view(-1, *[1] * (x.ndim - 1)) for name, x in inputs.items()}
        result = self.tensor(self.built, scaled, self.seeds(len(rows)))
        return float(F.cosine_similarity(result.flatten(1), rows, dim=1).mean())


class ImageProtectionProbe(Probe):
    """Calls an image protection with random private images."""

    component: ImageProtection

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "protects the private image itself", self._private

    def _private(self) -> str:
        """Change the private images alone: the images that replace them have to change, too.

        A protection that shows another image of the pool instead protects one image by exposing another one.
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
    """Calls a membership release with random outputs of a network."""

    component: MembershipRelease

    def bare(self) -> Mapping[str, Inputs]:
        usual = self.inputs(12)
        kinds = {name: samples.bare_outputs(x) for name, x in usual.items()}
        return {what: {name: tensors[what] for name, tensors in kinds.items()} for what in kinds["outputs"]}

    def own_checks(self) -> Iterator[OwnCheck]:
        yield "gives probabilities of sum 1", self._sums
        yield "answers for members as for near copies of them", self._members

    def _members(self) -> str:
        """Compare the answers for rows with those for near copies of them, for members and for other rows.

        Noise, rounding and coarser answers differ for members and for other rows alike. A defense that recognises
        members by their outputs, and answers with the outputs of other rows, differs for members alone; it hides
        nothing that the model gives away.
        """
        return f"at most {max(map(self._jump, SURER)):.2g} between the answers for a member and for a near copy"

    def _jump(self, surer: float) -> float:
        """Return the largest mean distance of the answers for members and for near copies of them.

        Raises `ContractError` if the defense looks members up, see `JUMP`. `surer`: one of `SURER`.
        """
        rng, largest = generator(derive_seed("release", self.seed, surer)), 0.0
        count, which = (int(torch.randint(*limits, (), generator=rng)) for limits in (ROWS, (0, len(CLASSES))))
        members, reference, others = (samples.surer(count, CLASSES[which], size, rng) for size in (surer, 0.0, 0.0))
        defender_rows, rows = {"held.member": members, "held.reference": reference}, torch.cat([members, others])
        answers = self._answers(defender_rows, rows)
        for size in NEAR:
            noise = size * torch.randn(rows.shape, generator=torch.Generator().manual_seed(self.seed))
            near_copies = (rows.clamp(min=1e-30).log() + noise).softmax(dim=1)
            distances = (answers - self._answers(defender_rows, near_copies)).abs().sum(dim=1).double()
            of_members, of_others = distances.chunk(2)
            member_mean, other_mean = float(of_members.mean()), float(of_others.mean())
            if (
                member_mean > other_mean + JUMP
                and scipy.stats.mannwhitneyu(of_members, of_others, alternative="greater").pvalue < LEVEL
            ):
                raise ContractError(
                    f"the answers for members and for near copies of them are {member_mean:.2f} apart, for other rows "
                    f"{other_mean:.2g}: members are looked up, and what is answered for them is not what the model says"
                )
            largest = max(largest, member_mean)
        return largest

    def _answers(self, inputs: Inputs, rows: torch.Tensor) -> torch.Tensor:
        """Return what the defense releases for outputs ``(n, classes)``. `inputs`: the rows that the defender holds."""
        return self.tensor(self.built, {**inputs, "outputs": rows}, self.seeds(len(rows)))

    def _sums(self) -> str:
        inputs = self.inputs(12)
        sums = self.tensor(self.built, inputs, self.seeds(12)).sum(dim=1)
        worst = float(sums[(sums - 1).abs().argmax()])
        if abs(worst - 1) > SUM:
            raise ContractError(f"the probabilities of a row have the sum {worst:.3g}; divide them by their sum")
        return f"sums from {float(sums.min()):.3g} to {float(sums.max()):.3g}"
