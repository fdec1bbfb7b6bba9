"""The step that tests each record of a split with the record's own reference models, see `per_record`.

The test holds its false positives where the target is one more model of the kind that the references are. So it is of
the adversary who knows the defense, whose references are defended as the target is; others compare unlike models.
"""

import numpy as np
import torch

from imharness.tracks import StepContext, StepResult, step
from imharness_membership.likelihood import log_odds
from imharness_membership.per_record import ENOUGH, over_views, p_values
from imharness_membership.queries import references_of


@step(version="1", doing="testing each record with its own reference networks[ behind {defense}]")
def calibrated(context: StepContext) -> StepResult:
    """Keep for each of the target's rows how likely a model without it answers at least so surely: column `p`.

    The fact `references` is the median number of models without a row.
    """
    target = context.need("target")
    references = references_of(context, np.arange(len(target.rows["row"])))
    outputs, labels = torch.from_numpy(target.arrays["outputs"]), torch.from_numpy(target.rows["label"])
    answers, member, views, target_views = (
        None if values is None else values.cpu().numpy()
        for values in (
            references.log_odds,
            references.member,
            references.view_log_odds,
            references.target_view_log_odds,
        )
    )
    theirs, answers = over_views(log_odds(outputs, labels).numpy(), answers, target_views, views)
    return StepResult(
        rows={"row": target.rows["row"], "member": target.rows["member"], "p": p_values(theirs, answers, ~member)},
        facts={"references": float(np.median((~member).sum(axis=0)))},
    )


def enough(models: int, subset_size: int, further: int) -> bool:
    """Say whether a row is expected to be unknown to so many models that the test can find something.

    Each of the `models` is trained on `subset_size` of two times as many rows and `further` ones; a size of 0 is one
    that the table decides, and then `further` rows are left out of account.
    """
    inside = subset_size / (2 * subset_size + further) if subset_size else 0.5
    return models * (1 - inside) >= ENOUGH
