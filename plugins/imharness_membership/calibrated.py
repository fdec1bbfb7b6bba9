"""The step that tests of each record, by reference models, whether the target was trained on it; see `per_record`.

The p-values are valid only if the reference models were trained as the target was. So the step belongs to the adversary
who knows the defense and trains defended references; an adversary who does not know it would compare unlike models.
"""

import numpy as np
import torch

from imharness.tracks import StepContext, StepResult, step
from imharness_membership.likelihood import log_odds
from imharness_membership.per_record import ENOUGH, over_views, p_values
from imharness_membership.queries import references_of


@step(version="1", doing="testing each record with its own reference networks[ behind {defense}]")
def calibrated(context: StepContext) -> StepResult:
    """Compute a p-value for each of the target's rows: column `p`, in (0, 1].

    It is the probability that a model which was not trained on the row answers at least as surely as the target. The
    fact `references` is the number of reference models that were not trained on a row, the median over rows.
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
    of_target, of_references = over_views(log_odds(outputs, labels).numpy(), answers, target_views, views)
    p = p_values(of_target, of_references, ~member)
    return StepResult(
        rows={"row": target.rows["row"], "member": target.rows["member"], "p": p},
        facts={"references": float(np.median((~member).sum(axis=0)))},
    )


def enough(models: int, subset_size: int, further: int) -> bool:
    """Say whether there are enough reference models for the test: `ENOUGH` that were not trained on an average row.

    Each of the `models` is trained on `subset_size` rows, drawn from 2 * `subset_size` + `further` rows. A size of 0
    means half of the table; then `further` does not count.
    """
    inside = subset_size / (2 * subset_size + further) if subset_size else 0.5
    return models * (1 - inside) >= ENOUGH
