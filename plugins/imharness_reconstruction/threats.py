"""Threat models: what the server is assumed to do and to know, and what participants share with it.

Defenses are compared within one threat model and one kind of update only: a defense that stops a server that keeps to
the protocol may not stop a server that changes the network. Carletti et al. order attacks by threat model ("SoK:
Gradient Inversion Attacks in Federated Learning", USENIX Security 2025).
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from imharness.gradients import ALONE, HONEST, ReconstructionAttack
from imharness.leaderboard import ColumnSpec, Contest, Row, Table, Value, facts_of, missing
from imharness.tracks import Query


class Case(NamedTuple):
    """A threat model, and what participants share, both in words."""

    threat: str
    shared: str

    @property
    def title(self) -> str:
        """The threat model and what is shared, as the title of a table."""
        return f"{self.threat}: {self.shared}"


MAIN = Case(HONEST, ALONE)
"""The case of result rows that name no threat model: an honest server, and a gradient of each image alone."""
BATCHES = "mean gradients of batches"
"""What participants share if an attack gets the gradients of several images as one."""


def of_one(attack: ReconstructionAttack) -> bool:
    """Return whether an attack is of the main case: a gradient of one image, a server that keeps to the protocol."""
    return attack.round() is None and attack.threat == HONEST


def update_of(attack: ReconstructionAttack) -> str:
    """Return what participants share with the server of an attack, in words."""
    attack_round = attack.round()
    if attack_round is not None:
        return attack_round.shared
    return ALONE if attack.batches(2) == [[0], [1]] else BATCHES


def columns_of(query: Query) -> str:
    """Return the SQL of the columns ``threat, shared`` of the step ``reconstruct``; `MAIN` where a row names none.

    The results must have rows of that step.
    """
    if not {"threat", "shared"} <= set(query("SELECT * FROM reconstruct LIMIT 0")):
        return f"'{MAIN.threat}' AS threat, '{MAIN.shared}' AS shared"
    return f"COALESCE(threat, '{MAIN.threat}') AS threat, COALESCE(shared, '{MAIN.shared}') AS shared"


def has_rows(query: Query, step: str) -> bool:
    """Return whether the store has rows of a step."""
    rows = query(f"SELECT 1 AS found FROM information_schema.tables WHERE table_name = '{step}'")
    return bool(len(rows["found"]))


def letters_of(query: Query, case: Case) -> str:
    """Return the letters of the threat models of a case's attacks, as in ``A, B``; "" where no attack has one."""
    letters = facts_of(query, "letter", "attack")
    attacks = [attack for attack, attack_case in case_of_attack(query).items() if attack_case == case]
    return ", ".join(sorted({letters[attack] for attack in attacks if letters.get(attack)}))


def of_the_rest(query: Query, case: Case) -> str:
    """Say in a sentence how many images the last participant had; "" if it had as many as the others."""
    several = re.search(r"(\d+) images", case.shared)
    if several is None or not has_rows(query, "reconstruct"):
        return ""
    counts = query(
        f"SELECT threat, shared, count(DISTINCT name) AS images FROM (SELECT dataset, name, {columns_of(query)} "
        "FROM reconstruct) GROUP BY dataset, threat, shared"
    )
    here = (counts["threat"] == case.threat) & (counts["shared"] == case.shared)
    rests = sorted({int(count) % int(several[1]) for count in counts["images"][here]} - {0})
    return f" The last participant had what was left, {' or '.join(map(str, rests))}." if rests else ""


def case_of_attack(query: Query) -> dict[str, Case]:
    """Return attack -> its case; empty if no attack has results."""
    if not has_rows(query, "reconstruct"):
        return {}
    rows = query(f"SELECT DISTINCT attack, {columns_of(query)} FROM reconstruct ORDER BY ALL")
    lines = zip(rows["attack"], rows["threat"], rows["shared"], strict=True)
    return {attack: Case(threat, shared) for attack, threat, shared in lines}


def cases_of(query: Query) -> list[Case]:
    """Return the cases of all attacks with results, the main case first; the main case alone without results."""
    return sorted(set(case_of_attack(query).values()) or {MAIN}, key=lambda case: (case != MAIN, case))


def by_threat(query: Query, contests: Mapping[Case, Contest]) -> Table:
    """Return what the strongest attack rebuilds of each protected model, with a column for each threat model."""
    columns, values = [], dict[str, dict[str, Value]]()
    for case, rules in contests.items():
        label, letters = rules.protection.label, letters_of(query, case)
        columns.append(
            ColumnSpec(
                key=case.title,
                label=case.title,
                description=f"{label} under the strongest attack on each image. The server is {case.threat}; shared is "
                f"the {case.shared}." + f" Threat models of the SoK: {letters}." * bool(letters),
                better=rules.protection.better,
                decimals=rules.protection.decimals,
                unit="private image",
                cluster_unit=rules.protection.cluster_unit,
            )
        )
        for entry, gains in zip(rules.scores.entries, rules.worst, strict=True):
            reason = rules.unknown.get(entry, "")
            value = missing(reason) if reason else rules.mean(rules.sign * gains)
            values.setdefault(entry, {})[case.title] = value
    rows = [
        Row(
            label=entry,
            values={column.key: row_values.get(column.key, missing("not attacked in this way")) for column in columns},
        )
        for entry, row_values in sorted(values.items())
    ]
    return Table(
        id="by-threat",
        title="What the strongest attack rebuilds, by threat model",
        caption="Compare models within a column only: the columns differ in what the server does and knows, and in "
        "what participants share with it. The malicious server bounds what the others can reach.",
        entry="protected model",
        columns=tuple(columns),
        rows=tuple(rows),
    )
