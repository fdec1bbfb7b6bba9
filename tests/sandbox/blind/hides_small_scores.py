"""Returns scores of about 1e-6 whose sign changes with each call.

They are smaller than the tolerance of the tests, so that a comparison of absolute values finds no difference.
"""

import torch

from imharness.membership import Info, MembershipEvaluator, hookimpl

_calls = []


class Tiny(MembershipEvaluator):
    """Score rows by their position, with a sign that alternates from call to call."""

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
