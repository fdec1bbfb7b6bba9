"""What a report of an audit advises: it follows from the verdict, and from what predicted classes alone give away."""

from collections.abc import Iterator

from imharness_membership.findings import ModelAudit

LABEL_ATTACK = "harness/label-only"


def advice(audit: ModelAudit, limit: float | None) -> Iterator[str]:
    """Yield sentences for people who decide about a model; `limit` is the balanced accuracy that they accept."""
    accuracy = audit.worst().accuracy
    verdict = "" if limit is None else accuracy.against(limit)
    if limit is None:
        yield "Decide which number you accept, and say so with --fail-above."
    if verdict == "passes":
        yield (
            "Passing holds for these attacks and these records alone. Where much is at stake, run the attacks that "
            "were not tested as well."
        )
    if limit is not None and verdict == "not shown":
        yield _not_shown(audit, limit)
    if limit is None and accuracy.concerns:
        yield "Mend what is said about the rows, and audit again."
    elif verdict in ("", "fails"):
        yield _without_probabilities(audit, limit)


def _not_shown(audit: ModelAudit, limit: float) -> str:
    accuracy = audit.worst().accuracy
    needed = accuracy.rows_needed(limit)
    until = "Until then, treat the threshold as exceeded."
    if accuracy.concerns:
        return f"Mend what is named under the verdict, and audit again. {until}"
    if accuracy.reached[0] > limit:
        return f"Audit again with a shadow model that answers like this one, from which attacks learn better. {until}"
    if needed is None or round(accuracy.value, 3) == round(limit, 3):
        return (
            "The number is at the threshold, where more records do not settle it soon. Treat the threshold as exceeded."
        )
    rows = -(-needed // 100) * 100
    return f"About {rows} tested records, half of them members, would settle it if the number stays as it is. {until}"


def _without_probabilities(audit: ModelAudit, limit: float | None) -> str:
    """Say whether it helps to give out predicted classes alone."""
    alone, leads = audit.labels_alone, audit.worst().accuracy
    if alone is None:
        return "Audit it with true classes, too: without them it is not known what predicted classes alone give away."
    number = f"{alone.value:.3f} [{alone.low:.3f}, {alone.high:.3f}]"
    if alone.value >= leads.value or (limit is not None and alone.against(limit) == "fails"):
        return (
            f"To hide the probabilities does not help: the predicted classes alone give away {number}, because the "
            "model is right on more members than non-members."
        )
    if limit is not None and alone.against(limit) == "passes":
        tested = ", as far as was tested: attacks that ask about altered copies of a record were not"
        return (
            f"Give out predicted classes without probabilities: they give away {number}"
            f"{tested if LABEL_ATTACK in audit.untested else ''}."
        )
    unproven = "" if limit is None else ", which is not shown to be at most the threshold"
    return f"Predicted classes without probabilities give away less, {number}{unproven}."
