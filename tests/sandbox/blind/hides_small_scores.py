"""Returns scores that are far smaller than the tolerance of the tests, so that no test sees what they depend on."""

import torch

from imharness.membership import Info, MembershipEvaluator, hookimpl

_calls = []


class Tiny(MembershipEvaluator):
    """Score rows by how often it was asked."""

    info = Info(id="blind/hides-small-scores", version="1")

    def build(self, device):
        def score(query):
            _calls.append(1)
            rows = torch.arange(len(query.target_labels), dtype=torch.float32)
            return 1e-6 * (rows if len(_calls) % 2 else -rows)

        return score


@hookimpl
def components():
    return [Tiny()]
