"""Attacks that are stronger than what a leaderboard has: they are handed in where images or outputs prove nothing."""

import torch
import torch.nn.functional as F
from torch.func import functional_call

from imharness.gradients import Gradients, ImageRng, Images, Info, Progress, Reconstruct, ReconstructionAttack, hookimpl
from imharness.membership import Component, InferMembership, MembershipEvaluator, MembershipQuery, Scores


class Loss(MembershipEvaluator):
    """Calls a row a member when its loss is small: all rows that were learnt by heart, not only the right ones."""

    info = Info(id="breaker/loss", version="1")
    needs_labels = True

    def build(self, device: torch.device) -> InferMembership:
        """Return the evaluator; the threshold is the one that is best on shadow models."""

        def infer(query: MembershipQuery) -> Scores:
            shadow = query.shadow_outputs.gather(-1, query.shadow_labels[..., None])[..., 0].flatten()
            member = query.shadow_member.flatten()
            right = [(((shadow >= t) == member).float().mean(), t) for t in shadow.unique()]
            confidence = query.target_outputs.gather(1, query.target_labels[:, None])[:, 0]
            return confidence - max(right)[1]

        return infer


class Descent(ReconstructionAttack):
    """Matches the gradient by L-BFGS; the label is the class whose bias has the negative gradient."""

    info = Info(id="breaker/descent", version="1")

    def build(self, device: torch.device) -> Reconstruct:
        """Return the attack."""

        def reconstruct(
            gradients: Gradients, model: torch.nn.Module, shape: tuple[int, int, int], rng: ImageRng, progress: Progress
        ) -> Images:
            images = []
            for row, start in enumerate(rng.normal(*shape)):
                wanted = {name: values[row] for name, values in gradients.items()}
                images.append(_matching(start.to(next(iter(wanted.values())).device), wanted, model))
            return torch.stack(images)

        return reconstruct


def _matching(start: torch.Tensor, wanted: dict[str, torch.Tensor], model: torch.nn.Module) -> torch.Tensor:
    """Return the image ``(3, H, W)`` whose gradient is nearest to the wanted one."""
    label, image = list(wanted.values())[-1].argmin()[None], start.clone().requires_grad_(True)
    search = torch.optim.LBFGS(
        [image],
        max_iter=400,
        tolerance_grad=1e-12,
        tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
        history_size=50,
    )
    parameters = {name: parameter.detach().clone().requires_grad_(True) for name, parameter in model.named_parameters()}
    size = torch.cat([gradient.flatten() for gradient in wanted.values()]).norm()

    def loss() -> torch.Tensor:
        search.zero_grad()
        outputs = functional_call(model, parameters, (image[None],))
        simulated = torch.autograd.grad(
            F.cross_entropy(outputs, label), [parameters[n] for n in wanted], create_graph=True
        )
        far = (
            torch.cat([(a - b).flatten() for a, b in zip(simulated, wanted.values(), strict=True)])
            .div(size)
            .square()
            .sum()
        )
        far.backward(inputs=[image])
        return far

    search.step(loss)
    return image.detach().clamp(0, 1)


@hookimpl
def components() -> list[Component]:
    """Offer both."""
    return [Loss(), Descent()]
