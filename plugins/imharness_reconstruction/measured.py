"""The numbers that models are ranked by: scores of reconstructions, and the test accuracy of trained models."""

from imharness.tables import Blocks, Value, mean_value
from imharness.tracks import Query
from imharness_reconstruction.models.saved_classifier import ARCHITECTURES
from imharness_reconstruction.models.untrained import Untrained
from imharness_reconstruction.resolution import PSNR, RESOLVED

BASELINE = "harness/plain-gradient"
TRAINED = "trained"
FLOOR = "mean image"
BY = ["dataset", "attack", "attacker", "state", "metric"]
CELL = "dataset, attack, model, defense"
CLUSTER = {"cluster": "source", "cluster_unit": "photograph"}
UNAWARE, ADAPTIVE = "unaware", "adaptive"


def scores_of(query: Query, metric: str) -> Blocks:
    """Return the scores of protected models and of the mean image; `failed` is 1 where an attack did not converge."""
    columns = set(query("SELECT * FROM reconstruct LIMIT 0")) if _has_rows(query, "reconstruct") else set()
    told = {"converged", "state", "source"} <= columns
    facts = f"SELECT {CELL}, name, source, state, converged FROM reconstruct"
    if not told:
        facts = f"SELECT DISTINCT {CELL}, name, name AS source, '' AS state, NULL AS converged FROM leakage"
    trained = f"SELECT DISTINCT model FROM ({facts}) WHERE state = '{TRAINED}'"
    alike = ", ".join(f"('{Untrained(architecture=a).label}', '{own.label}')" for a, own in ARCHITECTURES.items())
    adaptive, wanted = ", ".join(map(_quoted, _adaptive(query))) or "''", _quoted(metric)
    psnr = f"CASE WHEN metric = '{PSNR}' AND NOT isnan(score) THEN least(score, {RESOLVED}) ELSE score END"
    guesses = ""
    if "guess" in query.steps:
        guesses = (
            f" UNION ALL SELECT '{FLOOR}', dataset, attack, attacker, state, name, source, guess.score, NULL FROM "
            f"(SELECT * FROM guess WHERE metric = {wanted}) AS guess "
            "JOIN (SELECT DISTINCT dataset, attack, attacker, state, name, source FROM own) USING (dataset, name)"
        )
    return query.blocks(
        f"WITH facts AS ({facts}), alike AS (SELECT * FROM (VALUES {alike}) AS t(model, same) "
        f"WHERE same IN ({trained})), "
        "cells AS (SELECT leakage.*, source, state, converged FROM leakage "
        f"JOIN facts USING ({CELL}, name) WHERE metric = {wanted}), "
        "named AS (SELECT cells.*, COALESCE(same, model) AS entered FROM cells LEFT JOIN alike USING (model) "
        f"UNION ALL SELECT cells.*, model FROM cells JOIN alike USING (model) WHERE defense = '{BASELINE}'), "
        "own AS (SELECT entered || ' + ' || defense AS entry, dataset, attack, "
        f"CASE WHEN attack IN ({adaptive}) THEN '{ADAPTIVE}' ELSE '{UNAWARE}' END AS attacker, state, name, "
        f"COALESCE(source, name) AS source, {psnr} AS score, CAST(converged AS DOUBLE) AS converged FROM named) "
        f"SELECT entry, dataset, attack, attacker, state, {wanted} AS metric, dataset || ' ' || name AS image, "
        "dataset || ' ' || source AS source, CASE WHEN converged = 0 THEN NULL ELSE score END AS score, "
        f"CASE WHEN converged = 0 THEN 1.0 ELSE 0.0 END AS failed FROM (SELECT * FROM own{guesses})",
        entry="entry",
        by=BY,
        unit="image",
        measures=["score", "failed"],
        about=["source"],
    )


def _quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _has_rows(query: Query, step: str) -> bool:
    found = query(f"SELECT 1 AS found FROM information_schema.tables WHERE table_name = '{step}'")
    return bool(len(found["found"]))


def _adaptive(query: Query) -> list[str]:
    """Return the attacks that match only the coordinates that pruning left."""
    if not _has_rows(query, "components"):
        return []
    sql = "SELECT label FROM components WHERE kind = 'attack' AND (parameters->>'surviving') = 'true' ORDER BY label"
    return [str(label) for label in query(sql)["label"]]


def classified_right(query: Query) -> Blocks | None:
    """Return 1 for each held-out image that a protected model classifies right, else 0; None where none was trained."""
    if "train" not in query.steps:
        return None
    source = "source" if "source" in query("SELECT * FROM train LIMIT 0") else "name"
    return query.blocks(
        f"SELECT dataset, dataset || ' ' || name AS image, dataset || ' ' || {source} AS source, "
        "model || ' + ' || defense AS entry, CAST(\"right\" AS DOUBLE) AS accuracy FROM train",
        entry="entry",
        by=["dataset"],
        unit="image",
        measures=["accuracy"],
        about=["source"],
    )


def accuracies(right: Blocks | None) -> dict[str, Value]:
    """Return the test accuracy of every protected model that was trained."""
    entries = right.entries if right is not None else ()
    return {entry: mean_value(*right.once_by("source", "accuracy", entry)) for entry in entries} if right else {}
