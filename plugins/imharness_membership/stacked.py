"""Runs many networks of one architecture at once: the weights of K networks are stacks ``(K, ...)`` by name.

Chains of linear layers and activations become batched matrix products. Other networks go through `torch.func.vmap`,
whose overhead is larger than the products of a small network.
"""

import copy
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

Weights = Mapping[str, torch.Tensor]
Answers = Callable[[Weights, torch.Tensor], torch.Tensor]
"""Stacked weights and inputs ``(K, n, ...)`` -> logits ``(K, n, classes)``."""
PLAIN = (nn.ReLU, nn.Tanh, nn.Sigmoid)
"""Elementwise activations."""


def stack_weights(networks: Sequence[nn.Module]) -> dict[str, torch.Tensor]:
    """Return the weights of networks of one architecture, ``(K, ...)`` by name, ready to be trained."""
    stacked, _ = stack_module_state(list(networks))
    return {name: values.detach().requires_grad_(True) for name, values in stacked.items()}


def unstack_weights(weights: Weights, networks: Sequence[nn.Module]) -> None:
    """Write stacked weights back into the networks."""
    owned = [dict(network.named_parameters()) for network in networks]
    with torch.no_grad():
        for name, values in weights.items():
            torch._foreach_copy_([parameters[name] for parameters in owned], list(values))


def answers_of(network: nn.Module) -> Answers:
    """Return the function from stacked weights and inputs to the logits of networks of this architecture."""
    if is_chain(network):
        return lambda weights, x: through(network, weights, x)

    blank = copy.deepcopy(network)  # a network that uses a layer twice would not get its own weights back

    def one(parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = functional_call(blank, parameters, (x,))
        return outputs

    return vmap(one)


def is_chain(network: nn.Module) -> bool:
    """Return whether a network is a sequence of linear layers, each with weights of its own, and activations."""
    if type(network) is not nn.Sequential or not all(_is_plain(layer) for layer in network):
        return False
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    return len({id(parameter) for layer in linear for parameter in layer.parameters()}) == 2 * len(linear)


def through(chain: nn.Module, weights: Weights, x: torch.Tensor, prefix: str = "") -> torch.Tensor:
    """Return the outputs ``(K, n, outs)`` of stacked chains; the names of their weights begin with `prefix`."""
    for name, layer in chain._modules.items():  # `named_children` leaves out the second use of a layer
        if isinstance(layer, nn.Linear):
            layer_prefix, places = f"{prefix}{name}.", x.shape[1:-1]
            x = torch.baddbmm(
                weights[f"{layer_prefix}bias"][:, None], x.flatten(1, -2), weights[f"{layer_prefix}weight"].mT
            )
            x = x.unflatten(1, places)
        else:
            x = x.flatten(2) if isinstance(layer, nn.Flatten) else layer(x)
    return x


def _is_plain(layer: nn.Module) -> bool:
    """Return whether `through` can compute a layer."""
    if type(layer) is nn.Linear:
        return layer.bias is not None
    return type(layer) in PLAIN or (type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1))
