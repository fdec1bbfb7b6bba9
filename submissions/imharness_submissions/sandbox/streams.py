"""The random streams that a package draws from: not those of the harness, which follow from public numbers.

On a public split anybody can compute the streams of kept results, by the seed of the run and the images' names, and a
package that carries them would know such a call. So it gets others, which follow from those and from a secret. All are
fresh: nothing was drawn from them.
"""

from __future__ import annotations

import hashlib

import torch

from imharness.contracts.call import Call
from imharness.contracts.component import Component
from imharness.contracts.purification import Purification
from imharness.contracts.randomness import ImageRng, derive_seed, generator
from imharness.contracts.values import Randomness
from imharness.testing.crossing import randomness


def calls_of(component: Component) -> list[Call]:
    """Return how the functions are called that a component's methods give."""
    names = [name for name in dir(type(component)) if name == "call" or name.endswith("_call")]
    return [call for name in names if isinstance(call := getattr(type(component), name), Call)]


def drawn(component: Component, call: Call) -> dict[str, Randomness]:
    """Return the arguments of a call from which a component draws; none where it says that it is not random."""
    quiet = isinstance(component, Purification) and not component.info.random
    return {} if quiet else randomness(call)


def hidden_states(kind: Randomness, states: torch.Tensor, secret: str, device: torch.device) -> torch.Tensor:
    """Return the states of other streams, or of another generator, uint8 in the shape of `states`.

    Equal states and secrets give equal results; without a secret, the states stay as they are.
    """
    if not secret:
        return states
    if not kind.rows:
        return generator(_seed(secret, states)).get_state()
    return ImageRng([_seed(secret, state) for state in states], device).states()


def _seed(secret: str, state: torch.Tensor) -> int:
    content = state.detach().cpu().contiguous().numpy().tobytes()
    return derive_seed("hidden stream", secret, hashlib.sha256(content).hexdigest())
