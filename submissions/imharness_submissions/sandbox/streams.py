"""The random streams that a package draws from: they follow from those of the harness and from a secret.

On a public split anybody can compute the harness's own streams, from the seed of the run and the names of the images. A
package that contains them could recognise the calls whose results are stored. Each stream
that a package gets is fresh: nothing was drawn from it before the call.
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
    """Return the calls of a component: how the functions that its methods return are called."""
    names = [name for name in dir(type(component)) if name == "call" or name.endswith("_call")]
    values = [getattr(type(component), name) for name in names]
    return [value for value in values if isinstance(value, Call)]


def drawn(component: Component, call: Call) -> dict[str, Randomness]:
    """Return the arguments of a call from which a component draws; none where it says that it is not random."""
    never_draws = isinstance(component, Purification) and not component.info.random
    return {} if never_draws else randomness(call)


def hidden_states(kind: Randomness, states: torch.Tensor, secret: str, device: torch.device) -> torch.Tensor:
    """Return the states of the package's streams, or of its generator, uint8 in the shape of `states`.

    `states`: those of the harness's streams. Equal states and secrets give equal results; without a secret, the states
    stay as they are.
    """
    if not secret:
        return states
    if not kind.rows:
        return generator(_seed(secret, states)).get_state()
    return ImageRng([_seed(secret, state) for state in states], device).states()


def _seed(secret: str, state: torch.Tensor) -> int:
    content = state.detach().cpu().contiguous().numpy().tobytes()
    return derive_seed("hidden stream", secret, hashlib.sha256(content).hexdigest())
