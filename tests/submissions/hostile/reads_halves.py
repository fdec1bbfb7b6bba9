"""Recomputes the public split: rows are recognised by the halves on which the reference models were trained."""

import torch

from imharness.data import derive_seed, generator
from imharness.membership import Info, MembershipEvaluator, hookimpl

SPLITS = range(5)


def halves(split, models, n):
    """Return which of the target's rows, members first, each model was trained on, as the harness draws it."""
    members = torch.zeros(models, n, dtype=torch.bool)
    for k in range(models):
        drawn = generator(derive_seed(0, "split", str(split), "half", str(k)))
        members[k, torch.randperm(n, generator=drawn)[: n // 2]] = True
    return members


class Reading(MembershipEvaluator):
    """Says "member" where most rows with the same halves are members."""

    info = Info(id="evil/reads-halves", version="1")
    reads = frozenset({"references"})

    def build(self, device):
        def infer(query):
            seen = query.references.member
            models, n = seen.shape
            weights = 2.0 ** torch.arange(models)
            codes = (seen.T.float() * weights).sum(dim=1)
            for split in SPLITS:
                expected_codes = (halves(split, models, n).T.float() * weights).sum(dim=1)
                if torch.equal(expected_codes.sort().values, codes.sort().values):
                    inside = (codes[:, None] == expected_codes[None, : n // 2]).sum(dim=1)
                    outside = (codes[:, None] == expected_codes[None, n // 2 :]).sum(dim=1)
                    return (inside - outside).float()
            return query.target_outputs.max(dim=1).values - 0.5

        return infer


@hookimpl
def components():
    return [Reading()]
