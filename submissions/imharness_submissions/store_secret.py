"""The secret of a store: the seed of all networks and splits that strangers' evaluators are measured on.

On a public split everything follows from public numbers: which rows were members, on which half each reference model
was trained, the order of rows, the networks and so their outputs. An evaluator that was made for it can know all of
them. So tasks of submitted evaluators, and the networks that they need, are those of a secret split, whose seed stands
in the store and nowhere else. Their keys and records hold its digest.
"""

from __future__ import annotations

import secrets

from pydantic import BaseModel, ConfigDict

from imharness.planning.secret import checked_seed
from imharness.results.store import Store

FILE = "secret.json"
"""The name of the document in the store."""


class StoreSecret(BaseModel):
    """The seed, 64 hexadecimal digits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: str


def known_secret(store: Store) -> str:
    """Return the seed of a store, or "" if none was drawn yet."""
    stored = store.current(FILE, StoreSecret)
    return "" if stored is None else checked_seed(stored.seed, f"{store.address}/{FILE}")


def secret_of(store: Store) -> str:
    """Return the seed of a store; it is drawn when it is first asked for."""
    with store.alone():
        if not known_secret(store):
            store.replace(FILE, StoreSecret(seed=secrets.token_hex(32)))
    return known_secret(store)
