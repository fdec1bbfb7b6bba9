"""The positive control of a ranking: some attack must rebuild something from an undefended model.

The mean of the training images is a guess that needs no gradient. If no attack on an undefended model comes closer to
the private images than this guess, nothing can be concluded: neither for a defense, behind which attacks fail as well,
nor for a metric that orders such reconstructions as people do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from imharness.leaderboard import Blocks, Contest, mean_value
from imharness_reconstruction.resolution import PSNR
from imharness_reconstruction.scores import BASELINE, FLOOR
from imharness_reconstruction.units import repeated

FLAG = "no attack rebuilds more than the mean image without a defense"


def with_positive_control(rules: Contest) -> Contest:
    """Return the contest unchanged if some attack on an undefended model succeeds, else one that judges nobody.

    An attack succeeds if its reconstructions are closer to the private images than the mean image is, on average: by
    the interval of the difference, or by the mean alone if there are too few images for an interval.
    """
    common = rules.on_common_units()
    # `worst` is the gain of each image under the attack that comes closest: the smaller, the closer the reconstruction.
    # The entry `FLOOR` is the mean image as the reconstruction of every image.
    entries = list(common.scores.entries)
    plain = [i for i, entry in enumerate(entries) if entry.endswith(f" + {BASELINE}")]
    if FLOOR not in entries or not plain:
        return rules
    guess = common.worst[entries.index(FLOOR)]
    leads = {i: common.mean(guess - common.worst[i]) for i in plain}  # how much closer than the mean image
    measured = {i: lead.value for i, lead in leads.items() if lead.value is not None}
    lowest = [value if leads[i].low is None else leads[i].low for i, value in measured.items()]
    if any(lead > 0 for lead in lowest):
        return rules
    verdict = "No attack converges without a defense"
    if measured:
        best = max(measured, key=lambda i: measured[i])
        both = np.isfinite(guess) & np.isfinite(common.worst[best])
        reached, guessed = (
            rules.words.amount(float(rules.sign * numbers[both].mean())) for numbers in (common.worst[best], guess)
        )
        verdict = (
            f"The attack rebuilds nothing without a defense ({reached}, the mean image has {guessed})"
            if measured[best] <= 0
            else f"Nothing is shown to be rebuilt without a defense ({reached}, mean image {guessed})"
        )
    flags = {entry: (*rules.flags.get(entry, ()), FLAG) for entry in entries if entry not in rules.controls}
    return replace(rules, flags={**rules.flags, **flags}, void=f"{verdict}: no defense can be judged.")


def uncontrolled(scores: Blocks, guesses: Mapping[str, float]) -> str:
    """Return `FLAG` if no attack on an undefended model is closer than the mean image; "" if one is, or unknown.

    "Closer" is decided as in `with_positive_control`, on the PSNR of each image: the larger, the closer.

    Args:
        scores: what `tables.leakages` returns, of one data set, attack and state.
        guesses: image -> PSNR of the mean image, dB.
    """
    for c, condition in enumerate(scores.conditions):
        guess = np.array([guesses.get(str(image), np.nan) for image in scores.units[c]], dtype=np.float64)
        plain = [i for i, entry in enumerate(scores.entries) if entry.endswith(f" + {BASELINE}")]
        if condition["metric"] != PSNR or not plain or not np.isfinite(guess).any():
            continue
        failed = scores.values["converged"][c] == 0
        leads = np.where(failed, np.nan, scores.values["score"][c] - guess)[plain]
        sources = repeated(scores.about["source"][c])
        measured = [value for row in leads if (value := mean_value(row, sources)).value is not None]
        lowest = [value.value if value.low is None else value.low for value in measured]
        return "" if any(lead > 0 for lead in lowest) else FLAG
    return ""
