"""The report of a submission's run, sealed: once edited, it fits neither its seal nor the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from imharness.documents.entries import NOT_JUDGED
from imharness.results.identity import digest

LATE = "late"
"""The status of a check that took too long twice, perhaps because the machine is slow."""
TOO_LONG = ("than a task may take", "took longer than the time limit of")
"""Words by which the line of a task, or of a check, says that its time was over."""


def is_late(line: str) -> bool:
    """Say whether a task or a check failed because its time was over."""
    return any(words in line for words in TOO_LONG)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Checked(_Frozen):
    """The result of one check of the conformance suite; `status` is passed, failed, skipped or `LATE`."""

    component: str
    check: str
    status: str
    message: str


class Gain(_Frozen):
    """How far an attack moved the score behind the defense: the mean over images, as a share of the metric's range.

    `way` names how the attack gets past the defense, as in `imharness_submissions.gradient_audit`.
    """

    way: str
    attack: str
    gain: float
    higher: bool
    """Whether it is shown to be more than with the gradient that attacks read, see `GradientAudit.read`."""


class GradientAudit(_Frozen):
    """The audit of gradients: whether they are as useful to attacks as they should be.

    - Of a defense: its own gradient is compared with attacks that do without it; `gains` has one of each.
    - Of a metric: its gradient is compared with queries. `gains` is empty and `metric` equals `component`.
    - Of a gradient defense: the gradients that it returns for training are compared with those that it returns to be
      shared. `gains` is empty, and `metric` is the network whose gradients it changes.
    """

    component: str
    metric: str
    images: int
    gains: tuple[Gain, ...]
    flags: tuple[str, ...] = ()

    @property
    def read(self) -> str:
        """The way of the gradient that attacks read, which is tried first: the defense's own, or what replaces it."""
        return self.gains[0].way if self.gains else ""

    @property
    def worst(self) -> Gain | None:
        """The attack that moved the score furthest; None where no attack was tried."""
        return max(self.gains, key=lambda gain: gain.gain, default=None)


class ChanceLevel(_Frozen):
    """How often an evaluator was right in a task without any information on who is a member.

    A coin is right half of the time. `p`: the probability that a coin is right as often, corrected for the number of
    the entry's tasks. `knows`: whether `p` is so small that the evaluator must know the rows.
    """

    component: str
    task: str
    rows: int
    accuracy: float
    p: float
    knows: bool

    @property
    def flag(self) -> str:
        """The reason to flag the entry, empty where there is none."""
        if not self.knows:
            return ""
        return (
            f"knows the rows without the model: right about {self.accuracy:.3f} of {self.rows} rows by a model that "
            f"saw none of them, p = {self.p:.1g}"
        )


class ClaimResult(_Frozen):
    """A claimed number and the measured one, None where the tables hold none."""

    what: str
    claimed: float
    measured: float | None
    tolerance: float
    holds: bool


class ReportedTask(_Frozen):
    """A computed task: its address, its key, and the seal of its record."""

    address: str
    key: str
    seal: str


class SubmissionReport(_Frozen):
    """The report of a whole run. `seal` is the digest of everything else.

    In files the field `gradient_audits` is called ``honesty``, as in reports that are already sealed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    name: str
    manifest: str = Field(description="sha256 of the manifest's content")
    environment: str = Field(description="sha256 of all files of the package and what it needs")
    package: str
    isolation: str
    started: str
    seconds: float
    profile: str
    limit: int | None
    seed: int
    suite_seed: int
    device: str
    versions: Mapping[str, str]
    entries: tuple[str, ...]
    import_s: float
    conformance: tuple[Checked, ...]
    gradient_audits: tuple[GradientAudit, ...] = Field(default=(), alias="honesty")
    chance_level: tuple[ChanceLevel, ...] = ()
    attempts: tuple[str, ...] = ()
    """Forbidden things that the package tried."""
    tasks: tuple[ReportedTask, ...] = ()
    failed: Mapping[str, str] = Field(default_factory=dict)
    unavailable: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    """Entries whose numbers are those of others, within noise."""
    ranking: tuple[str, ...] = ()
    """Why the rankings flag the entries, in addition to what was decided about them."""
    unjudged: tuple[str, ...] = ()
    """What took too long twice, tasks and checks included: until it is tried again, the entries are not judged."""
    claims: tuple[ClaimResult, ...] = ()
    seal: str = ""

    def sealed(self) -> SubmissionReport:
        """Return the report with its seal."""
        return self.model_copy(update={"seal": self.expected_seal()})

    def expected_seal(self) -> str:
        """Return the digest that `seal` must equal."""
        newer_fields = ("chance_level", "copies", "ranking", "unjudged")  # which older reports lack
        empty = {name for name in newer_fields if not getattr(self, name)}
        return digest(self.model_dump(mode="json", exclude={"seal", *empty}))

    def suite(self) -> str:
        """Return how many checks of the conformance suite passed, failed and were skipped, as text."""
        counts = Counter(check.status for check in self.conformance)
        statuses = ["passed", "failed", "skipped"]
        if counts[LATE]:
            statuses.append(LATE)
        return ", ".join(f"{counts[status]} {status}" for status in statuses)

    def flags(self) -> tuple[str, ...]:
        """Return every reason to flag the entries, one line each; empty when there is none.

        A task or check that took too long is no reason: see `unjudged`. Lines whose number and length the package
        itself decides stand last.
        """
        failed = [f"{c.component}: {c.check}: {c.message}" for c in self.conformance if c.status == "failed"]
        audits = [f"{audit.component}: {flag}" for audit in self.gradient_audits for flag in audit.flags]
        audits += [f"{guess.component}: {guess.flag}" for guess in self.chance_level if guess.knows]
        lines = [line for line in self.failed.values() if not is_late(line)]
        tasks = [f"{len(lines)} tasks failed: {lines[0]}"] if lines else []
        claims = [
            f"{c.what}: claimed {c.claimed:g}, measured {_number(c.measured)}" for c in self.claims if not c.holds
        ]
        return tuple(
            " ".join(text.split())[:400]
            for text in [*audits, *self.copies, *self.ranking, *claims, *tasks, *failed, *self.attempts]
        )


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.4g}"


def markdown(report: SubmissionReport) -> str:
    """Return a summary in Markdown, for a pull request."""
    flags = report.flags()
    lines = [
        f"## {report.name}: {'flagged' if flags else NOT_JUDGED if report.unjudged else 'no objections'}",
        "",
        f"{report.package}, isolation {report.isolation}, profile {report.profile}, "
        f"{len(report.tasks)} tasks in {report.seconds:.0f} s, {len(report.failed)} failed, "
        f"{len(report.unavailable)} unavailable.",
        "",
    ]
    if flags:
        lines += ["**Flags**", "", *(f"- {plain(flag)}" for flag in flags), ""]
    if report.unjudged:
        lines += ["**Not judged yet: run it again on a quieter machine, or with a higher `time_limit_s`**", ""]
        lines += [*(f"- {plain(line)}" for line in report.unjudged), ""]
    lines += [f"Conformance: {report.suite()}.", ""]
    for audit in report.gradient_audits:
        worst = audit.worst
        if worst is None:
            beside = "queries" if audit.metric == audit.component else f"those of `{plain(audit.metric)}`"
            lines += [f"Gradients of `{plain(audit.component)}` compared with {beside} on {audit.images} images.", ""]
            continue
        lines += [
            f"Attacks on `{plain(audit.component)}` in front of `{plain(audit.metric)}`, {audit.images} images. "
            f"The strongest ({worst.way}) moved the score by {worst.gain:.3f} of its range.",
            "",
            "| way | attack | gain |",
            "|---|---|---|",
            *(
                f"| {g.way}{f' (more than {audit.read})' if g.higher else ''} | {g.attack} | {g.gain:.4f} |"
                for g in audit.gains
            ),
            "",
        ]
    for guess in report.chance_level:
        lines += [
            f"`{plain(guess.component)}` was right about {guess.accuracy:.3f} of {guess.rows} rows of which nothing "
            f"tells who was a member (p = {guess.p:.2g}).",
            "",
        ]
    if report.claims:
        lines += ["| claim | claimed | measured | |", "|---|---|---|---|"]
        lines += [
            f"| {plain(c.what)} | {c.claimed:g} ± {c.tolerance:g} | {_number(c.measured)} "
            f"| {'holds' if c.holds else 'does not hold'} |"
            for c in report.claims
        ]
        lines += [""]
    lines += [
        f"Manifest `{report.manifest[:16]}`, package `{report.environment[:16]}`, seed {report.seed}, "
        f"report `{report.seal[:16]}`.",
        "",
    ]
    return "\n".join(lines)


def plain(text: str) -> str:
    """Return text with everything escaped that Markdown or HTML would interpret."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    for sign, safe in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("|", "\\|"),
        ("`", "'"),
        ("[", "\\["),
        ("@", "@\u200b"),
    ):
        printable = printable.replace(sign, safe)
    return printable
