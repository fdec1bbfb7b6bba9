"""What a run of a submission found, sealed: an edited report no longer fits its seal, nor the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from imharness.results.identity import digest


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Checked(_Frozen):
    """A check of the conformance suite."""

    component: str
    check: str
    status: str
    message: str


class Gain(_Frozen):
    """How far an attack moved the score behind the defense, in shares of the metric's range, averaged over images."""

    way: str
    attack: str
    gain: float
    higher: bool
    """Significantly more than through the defense's own gradient."""


class Honesty(_Frozen):
    """What attacks that need no gradient of the defense reach, beside those that use it."""

    component: str
    metric: str
    images: int
    gains: tuple[Gain, ...]
    flags: tuple[str, ...] = ()

    @property
    def worst(self) -> Gain:
        """The way that moved the score furthest."""
        return max(self.gains, key=lambda gain: gain.gain)


class ClaimResult(_Frozen):
    """A claimed number beside the measured one; None where the tables hold none."""

    what: str
    claimed: float
    measured: float | None
    tolerance: float
    holds: bool


class ReportedCell(_Frozen):
    """A computed cell: its address, its key, and the seal of its record."""

    address: str
    key: str
    seal: str


class SubmissionReport(_Frozen):
    """A whole run. `seal` is the digest of everything else."""

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
    honesty: tuple[Honesty, ...] = ()
    attempts: tuple[str, ...] = ()
    """What the package tried that it may not."""
    cells: tuple[ReportedCell, ...] = ()
    failed: Mapping[str, str] = Field(default_factory=dict)
    unavailable: tuple[str, ...] = ()
    claims: tuple[ClaimResult, ...] = ()
    seal: str = ""

    def sealed(self) -> SubmissionReport:
        """Return the report with its seal."""
        return self.model_copy(update={"seal": self.expected_seal()})

    def expected_seal(self) -> str:
        """Return the digest that `seal` must equal."""
        return digest(self.model_dump(mode="json", exclude={"seal"}))

    def suite(self) -> str:
        """Return how the conformance suite went, in numbers."""
        counts = {s: sum(c.status == s for c in self.conformance) for s in ("passed", "failed", "skipped")}
        return ", ".join(f"{n} {status}" for status, n in counts.items())

    def flags(self) -> tuple[str, ...]:
        """Return every reason to flag the entries, in words."""
        failed = [f"{c.component}: {c.check}: {c.message}" for c in self.conformance if c.status == "failed"]
        honesty = [f"{h.component}: {flag}" for h in self.honesty for flag in h.flags]
        cells = [f"{len(self.failed)} cells failed: {next(iter(self.failed.values()))}"] if self.failed else []
        claims = [
            f"{c.what}: claimed {c.claimed:g}, measured {_number(c.measured)}" for c in self.claims if not c.holds
        ]
        return tuple(" ".join(text.split())[:400] for text in [*self.attempts, *failed, *honesty, *cells, *claims])


def _number(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.4g}"


def markdown(report: SubmissionReport) -> str:
    """Return a summary for a pull request."""
    flags = report.flags()
    lines = [
        f"## {report.name}: {'flagged' if flags else 'nothing to object'}",
        "",
        f"{report.package}, isolation {report.isolation}, profile {report.profile}, "
        f"{len(report.cells)} cells in {report.seconds:.0f} s, {len(report.failed)} failed, "
        f"{len(report.unavailable)} unavailable.",
        "",
    ]
    if flags:
        lines += ["**Flags**", "", *(f"- {plain(flag)}" for flag in flags), ""]
    lines += [f"Conformance: {report.suite()}.", ""]
    for honesty in report.honesty:
        worst = honesty.worst
        lines += [
            f"Against `{plain(honesty.component)}` before `{plain(honesty.metric)}`, {honesty.images} images, worst: "
            f"{worst.way}, {worst.gain:.3f} of the range.",
            "",
            "| way | attack | gain |",
            "|---|---|---|",
            *(f"| {g.way}{' (more than its own gradient)' if g.higher else ''} | {g.attack} | {g.gain:.4f} |"
              for g in honesty.gains),
            "",
        ]  # fmt: skip
    if report.claims:
        lines += ["| claim | claimed | measured | |", "|---|---|---|---|"]
        lines += [
            f"| {plain(c.what)} | {c.claimed:g} | {_number(c.measured)} | {'holds' if c.holds else 'does not hold'} |"
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
    """Return text that cannot leave its place in Markdown or start HTML."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    for sign, safe in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("|", "\\|"),
        ("`", "'"),
        ("[", "\\["),
        ("@", "@\u200b"),
    ):
        shown = shown.replace(sign, safe)
    return shown
