"""Looks up the outputs of the public networks, which its author trained with the same public seed."""

import torch

from imharness.membership import Info, MembershipEvaluator, hookimpl

MEMBERS, OTHERS = [], []
"""Outputs of the public target on its members and on other rows; the test fills them in."""


class Remembering(MembershipEvaluator):
    """Says "member" where the closest remembered output is that of a member."""

    info = Info(id="evil/remembers-outputs", version="1")

    def build(self, device):
        inside, outside = torch.tensor(MEMBERS), torch.tensor(OTHERS)

        def infer(query):
            near = [torch.cdist(query.target_outputs, outputs).min(dim=1).values for outputs in (inside, outside)]
            return near[1] - near[0]

        return infer


@hookimpl
def components():
    return [Remembering()]
