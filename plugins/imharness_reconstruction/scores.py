"""Reads the scores by which protected models are ranked from the rows of a store."""

from imharness.leaderboard import Blocks
from imharness.tracks import Query
from imharness_reconstruction.models.saved_classifier import ARCHITECTURES
from imharness_reconstruction.models.untrained import Untrained
from imharness_reconstruction.recognition import CONDITION, RECOGNISED, verdicts
from imharness_reconstruction.resolution import PSNR, RESOLVED
from imharness_reconstruction.threats import MAIN, Case, columns_of, has_rows

BASELINE = "harness/plain-gradient"
TRAINED = "trained"
FLOOR = "mean image"
BY = ["dataset", "attack", "attacker", "state", "threat", "shared", "metric"]
UNAWARE, ADAPTIVE = "unaware", "adaptive"


def scores_of(query: Query, metric: str, case: Case) -> Blocks:
    """Return the scores of protected models and of the mean image under one threat model.

    There are two measures: `score`, which is NaN where an attack did not converge, and `failed`, which is 1 there. The
    query has these tables, one after another:

    - `facts`: the source, the state and whether the attack converged, for each reconstruction of the case.
    - `alike`: an untrained model, and the trained model of the same architecture.
    - `tasks`: the score of each reconstruction, with its facts.
    - `named`: the same with the name of an entry. An untrained model enters under the name of the trained one; without
      a defense, also under its own.
    - `scored`: a row for each entry and image; PSNR is at most `RESOLVED`.
    - `guesses`, which is appended: the mean image as an entry, in each condition of `scored`.
    """
    columns = set(query("SELECT * FROM reconstruct LIMIT 0")) if has_rows(query, "reconstruct") else set()
    has_facts = {"converged", "state", "source"} <= columns
    main_case = f"'{MAIN.threat}' AS threat, '{MAIN.shared}' AS shared"
    facts = (
        f"SELECT DISTINCT {CONDITION}, name, name AS source, '' AS state, NULL AS converged, {main_case} FROM leakage"
    )
    if has_facts:
        facts = f"SELECT {CONDITION}, name, source, state, converged, {columns_of(query)} FROM reconstruct"
    trained = f"SELECT DISTINCT model FROM ({facts}) WHERE state = '{TRAINED}'"
    facts = f"SELECT * FROM ({facts}) WHERE threat = {quoted(case.threat)} AND shared = {quoted(case.shared)}"
    measured = f"SELECT {CONDITION}, name, metric, score FROM leakage WHERE metric = {quoted(metric)}"
    if metric == RECOGNISED:
        measured = f"SELECT {CONDITION}, name, '{RECOGNISED}' AS metric, score FROM ({verdicts(query)})"
    alike = ", ".join(
        f"('{Untrained(architecture=a).label}', '{network.label}')" for a, network in ARCHITECTURES.items()
    )
    adaptive, wanted = ", ".join(map(quoted, _adaptive(query))) or "''", quoted(metric)
    psnr = f"CASE WHEN metric = '{PSNR}' AND NOT isnan(score) THEN least(score, {RESOLVED}) ELSE score END"
    guesses, condition_columns = "", "dataset, attack, attacker, state, threat, shared"
    if "guess" in query.steps:
        guesses = (
            f" UNION ALL SELECT '{FLOOR}', {condition_columns}, name, source, guess.score, NULL "
            f"FROM (SELECT * FROM guess WHERE metric = {wanted}) AS guess "
            f"JOIN (SELECT DISTINCT {condition_columns}, name, source FROM scored) USING (dataset, name)"
        )
    return query.blocks(
        f"WITH facts AS ({facts}), alike AS (SELECT * FROM (VALUES {alike}) AS t(model, same) "
        f"WHERE same IN ({trained})), "
        f"tasks AS (SELECT measured.*, source, state, threat, shared, converged FROM ({measured}) AS measured "
        f"JOIN facts USING ({CONDITION}, name)), "
        "named AS (SELECT tasks.*, COALESCE(same, model) AS entered FROM tasks LEFT JOIN alike USING (model) "
        f"UNION ALL SELECT tasks.*, model FROM tasks JOIN alike USING (model) WHERE defense = '{BASELINE}'), "
        "scored AS (SELECT entered || ' + ' || defense AS entry, dataset, attack, "
        f"CASE WHEN attack IN ({adaptive}) THEN '{ADAPTIVE}' ELSE '{UNAWARE}' END AS attacker, state, threat, shared, "
        f"name, COALESCE(source, name) AS source, {psnr} AS score, CAST(converged AS DOUBLE) AS converged FROM named) "
        f"SELECT entry, {condition_columns}, {wanted} AS metric, dataset || ' ' || name AS image, "
        "dataset || ' ' || source AS source, CASE WHEN converged = 0 THEN NULL ELSE score END AS score, "
        f"CASE WHEN converged = 0 THEN 1.0 ELSE 0.0 END AS failed FROM (SELECT * FROM scored{guesses})",
        entry="entry",
        by=BY,
        unit="image",
        measures=["score", "failed"],
        about=["source"],
    )


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _adaptive(query: Query) -> list[str]:
    """Return the attacks that match only the coordinates that pruning left."""
    if not has_rows(query, "components"):
        return []
    sql = "SELECT label FROM components WHERE kind = 'attack' AND (parameters->>'surviving') = 'true' ORDER BY label"
    return [str(label) for label in query(sql)["label"]]
