"""The first linear layer of a network, through which closed forms see images."""

import torch

from imharness.errors import UsageError
from imharness.gradients import Images


def first_linear(model: torch.nn.Module, images: Images, attack: str) -> tuple[str, torch.nn.Linear, torch.Tensor]:
    """Return the name of the first linear layer with a bias that images pass, the layer, and what enters it.

    Raises `UsageError`, which names the attack, where there is none.
    """
    met: list[tuple[str, torch.nn.Linear, torch.Tensor]] = []
    hooks = [
        layer.register_forward_pre_hook(lambda layer, inputs, name=name: met.append((name, layer, inputs[0])))
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.Linear) and layer.bias is not None
    ]
    try:
        with torch.no_grad():
            model(images)
    finally:
        for hook in hooks:
            hook.remove()
    if not met:
        raise UsageError(f"model: it has no linear layer with a bias, through which {attack} recovers images.")
    return met[0]
