"""`harness membership`: audit a model of your own, bound its epsilon from one run, and draw embeddings of a run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.commands import Group, Share, seed_option, store_option
from imharness.errors import UsageError

if TYPE_CHECKING:
    from imharness.membership import Estimate, Progress
    from imharness_membership.findings import Finding, ModelAudit

WIDE = 118
"""On terminals of fewer columns an audit shows `FIRST_MEASURES` alone."""
FIRST_MEASURES = ("balanced accuracy", "TPR at 1% FPR")
TRACK, RISK = "harness/membership", "harness/privacy-risk"


@click.group(cls=Group)
def membership() -> None:
    """Find out how much a model reveals about its training set."""


@membership.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--references",
    "references_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Answers of K reference models on the n rows of the target, members first: an npz with member (K, n) and "
    "log_odds (K, n) or probabilities (K, n, classes), and for v views of each row views (K, v, n) and target_views "
    "(v, n), log odds; or a csv or parquet table with the columns reference, row, member, and log_odds or p0, p1, ... "
    "Default: none.",
)
@click.option("--logits", is_flag=True, help="The outputs are logits, not probabilities.")
@click.option(
    "--evaluator",
    "names",
    multiple=True,
    metavar="NAME",
    help="Use this evaluator; may be given several times. Default: all that need only outputs and labels.",
)
@click.option(
    "--prior",
    type=Share(),
    metavar="SHARE",
    help="Also say how many accusations are right if this share of the records asked about are members. Default: none.",
)
@click.option("--per-class", is_flag=True, help="Also print the attack accuracy within each class.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the results here as JSON, with full precision.",
)
@click.option(
    "--html",
    "html_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write all numbers here, with pictures.",
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write one printable page here for readers who are no statisticians, as .html or .pdf.",
)
@click.option("--model", metavar="NAME", help="The model's name in reports. Default: the name of FILE.")
@click.option(
    "--fail-above",
    type=Share(),
    metavar="SHARE",
    help="Exit with status 1 unless the result, a balanced accuracy from 0 to 1, is at most this with its whole 95% "
    "interval. Default: never.",
)
@click.pass_context
def audit(
    ctx: click.Context,
    file: Path,
    references_file: Path | None,
    logits: bool,
    names: tuple[str, ...],
    prior: float | None,
    per_class: bool,
    json_file: Path | None,
    html_file: Path | None,
    report_file: Path | None,
    model: str | None,
    fail_above: float | None,
) -> None:
    """Audit a model from its outputs on members and non-members, and from those of a shadow model.

    FILE is an npz with the arrays {shadow,target}_{member,nonmember}_{outputs,labels}, or a csv or parquet table with
    the columns model (shadow or target), member (0 or 1), label, p0, p1, ...
    """
    from imharness.commands import console, page_file, writable, write_page
    from imharness.files import file_digest
    from imharness_membership.audit_html import report as audit_page
    from imharness_membership.audit_report import report
    from imharness_membership.findings import AuditSubject

    if prior is not None and not 0 < prior < 1:
        raise UsageError("--prior: give a share above 0 and below 1.")
    for output in filter(None, (json_file, html_file)):
        writable(output)
    report_file = report_file and page_file(report_file)
    with console.progress("evaluators") as advance:
        result = _audited(file, references_file, logits, names, advance)
    _say_verdict(result, fail_above)
    if prior is not None:
        console.say(_accusations(result, prior))
    _print(result, per_class)
    name = model or file.name
    if json_file:
        json_file.write_text(console.document({"file": file.name, **result.facts()}), encoding="utf-8")
    if html_file:
        html_file.write_text(audit_page(result, name), encoding="utf-8")
    if report_file:
        options = {
            "--references": references_file,
            "--evaluator": names,
            "--model": model,
            "--fail-above": fail_above,
            "--report": report_file,
        }
        read = {path.name: file_digest(path) for path in (file, references_file) if path}
        subject = AuditSubject(name, _command_line(file, logits, options), fail_above, read)
        write_page(report_file, report(result, subject))
    for output in filter(None, (html_file, report_file)):
        console.say(f"report: {output}")
    if fail_above is not None:
        ctx.exit(int(result.worst().accuracy.against(fail_above) != "passes"))


def _command_line(file: Path, logits: bool, options: Mapping[str, object]) -> str:
    """Return the command that repeats the audit; `options` that are None are left out, those with a tuple repeated."""
    words = ["harness", "membership", "audit", str(file)]
    if logits:
        words.append("--logits")
    for option, value in options.items():
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None:
                words += [option, str(each)]
    return shlex.join(words)


def _audited(
    file: Path, references_file: Path | None, logits: bool, names: tuple[str, ...], progress: Progress
) -> ModelAudit:
    """Return the audit of the outputs of a file, with or without reference models."""
    from imharness.commands import console, every, find
    from imharness_membership.answering import audited
    from imharness_membership.audit import MANY, SLOW
    from imharness_membership.audit_inputs import read_audit
    from imharness_membership.audit_references import read_references

    outputs = read_audit(file, logits, shadow=references_file is None)
    if not names and len(outputs["target"].labels) > MANY:
        console.say(f"{SLOW} is left out because there are more than {MANY} rows; ask for it with --evaluator")
    references = None if references_file is None else read_references(references_file)
    chosen = [find("evaluator", name) for name in names] or every("evaluator")
    result, _ = audited(
        outputs["target"], outputs.get("shadow"), references, chosen, named=bool(names), progress=progress
    )
    return result


def _say_verdict(result: ModelAudit, fail_above: float | None) -> None:
    """Say first what the audit found: whether it passes, and what the number means in natural frequencies."""
    from imharness.commands import console
    from imharness_membership.audit import brief

    worst = result.worst()
    accuracy = worst.accuracy
    right, low, high = (f"{100 * share:.0f}" for share in (accuracy.value, accuracy.low, accuracy.high))
    meaning = (
        f"shown 100 records, half of them members, the attacker is right about {right} times (95 % interval: {low} to "
        f"{high}); a coin is right 50 times"
    )
    if fail_above is None:
        console.say(f"No threshold was given: {meaning}.")
        return
    verdict = accuracy.against(fail_above)
    outcome = {"passes": "passes", "fails": "fails, above", "not shown": "not shown to be at most"}[verdict]
    console.say(f"Verdict: {outcome} {fail_above:g}; {meaning}.")
    console.say(f"{brief(worst.evaluator)}, balanced accuracy {_shown(accuracy)}")
    for line in accuracy.why_not(fail_above) if verdict == "not shown" else ():
        console.say(line)


def _accusations(result: ModelAudit, prior: float) -> str:
    """Return a sentence: how many accusations are right if the share `prior` of the records are members."""
    from imharness_membership.audit import brief

    worst = result.worst()
    ppv, name = worst.ppv(prior), brief(worst.evaluator)
    if ppv is None:
        return f"There are too few non-members to say how many accusations of {name} are right."
    right, low, high = (f"{100 * share:.0f}" for share in (ppv.value, ppv.low, ppv.high))
    return (
        f"If {prior:.3g} of the records asked about are members, and {100 * worst.accused:.2g} % of the others are "
        f"accused, {right} of 100 accusations are right (95 % interval: {low} to {high}; {name})."
    )


def _print(result: ModelAudit, per_class: bool) -> None:
    """Print the numbers of an audit: evaluators, doubts and notes, risk scores, and each class if `per_class`."""
    from imharness.commands import console
    from imharness_membership.audit import brief

    console.say(
        f"{result.members} members, {result.nonmembers} non-members, {result.classes} classes; accuracy "
        f"{result.train_accuracy:.3f} on members, {result.test_accuracy:.3f} on non-members"
    )
    findings = result.ordered()
    measures: dict[str, Callable[[Finding], Estimate | None]] = {
        "balanced accuracy": lambda finding: finding.accuracy,
        "AUC": lambda finding: finding.auc,
        "TPR at 0.1% FPR": lambda finding: finding.tpr_at_01,
        "TPR at 1% FPR": lambda finding: finding.tpr_at_1,
    }
    undefined = [name for name, of in measures.items() if all(of(finding) is None for finding in findings)]
    narrow = console.out.is_terminal and console.out.width < WIDE
    names = [name for name in measures if name not in undefined and (name in FIRST_MEASURES or not narrow)]
    heads = ["evaluator", *names] if narrow else ["evaluator", "when chosen", *names]
    rows = []
    for finding in findings:
        when_chosen = [] if narrow else [f"{finding.on_shadow:.3f}"]
        rows.append((brief(finding.evaluator), *when_chosen, *(_shown(measures[name](finding)) for name in names)))
    console.table("What an adversary finds out (95% intervals)", heads, rows)
    for name in undefined:
        console.say(f"{name} is not defined: too few non-members")
    if narrow:
        console.say(f"A terminal of {WIDE} columns, a pipe and --json FILE have all measures.")
    if len(rows) > 1:
        console.say(
            "The first row is the result: its evaluator was the most accurate on rows whose membership the adversary "
            "can check. Another row may be higher by chance."
        )
    for line in filter(None, (result.per_record, *result.doubts(), *result.notes)):
        console.say(str(line))
    for line in result.mismatches():
        console.say(f"differs from the target, which may hide what a better copy shows: {line}")
    for line in result.not_tested():
        console.say(f"not tested: {brief(line)}")
    risk = result.risk
    console.table(
        "Privacy risk scores: accusing all rows that reach a threshold",
        ["threshold", "precision", "recall"],
        [
            (f"{threshold:g}", "-" if precision is None else f"{precision:.3f}", f"{recall:.3f}")
            for threshold, precision, recall in zip(risk.thresholds, risk.precision, risk.recall, strict=True)
        ],
    )
    console.say(f"calibration of the risk score: RMSE {risk.rmse:.3f}")
    if per_class:
        evaluators = [brief(finding.evaluator) for finding in result.findings]
        class_rows = []
        for c in range(result.classes):
            accuracies = [finding.by_class[c] for finding in result.findings]
            class_rows.append((c, *("-" if accuracy is None else f"{accuracy:.3f}" for accuracy in accuracies)))
        console.table("Balanced accuracy by class", ["class", *evaluators], class_rows)


def _shown(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not defined: too few non-members"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


@membership.command("one-run")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--defense",
    metavar="NAME",
    help="Train this defense of the leaderboard with canaries instead of reading FILE. Default: FILE is read.",
)
@click.option("--dataset", default="digits", show_default=True, metavar="NAME", help="The data that it trains on.")
@click.option("--model", default="mlp", show_default=True, metavar="NAME", help="The network that it trains.")
@click.option(
    "--mislabelled",
    type=click.IntRange(20),
    metavar="N",
    default=1000,
    show_default=True,
    help="Rows that are canaries.",
)
@click.option(
    "--guesses",
    type=click.IntRange(2),
    metavar="N",
    help="Canaries to guess. Default: three numbers are tried and paid.",
)
@click.option(
    "--delta", type=Share(), metavar="SHARE", default=1e-5, show_default=True, help="The delta that is put to the test."
)
@click.option(
    "--confidence", type=Share(), metavar="SHARE", default=0.95, show_default=True, help="With which the bound holds."
)
@seed_option("coins and training")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Write the bounds here as JSON."
)
def one_run(
    file: Path | None,
    defense: str | None,
    dataset: str,
    model: str,
    mislabelled: int,
    guesses: int | None,
    delta: float,
    confidence: float,
    seed: int,
    json_file: Path | None,
) -> None:
    """Find a lower bound of epsilon from one training run.

    FILE is an npz with the arrays scores and included, or a csv or parquet table with these columns: for each canary a
    score, higher if the model knows it rather, and whether a fair coin put it into the training set (1) or not (0).
    """
    from dataclasses import asdict

    from imharness.commands import console, writable
    from imharness.errors import UsageError
    from imharness_membership.leaderboard_run import leaderboard_run, read_canaries
    from imharness_membership.one_run import one_run_bounds

    if (file is None) == (defense is None):
        raise UsageError("give FILE or --defense NAME, one of them.")
    if json_file:
        writable(json_file)
    if file:
        scores, included = read_canaries(file)
    else:
        with console.progress("epochs") as advance:
            scores, included, promised = leaderboard_run(str(defense), dataset, model, mislabelled, seed, advance)
        promise = "no epsilon" if promised is None else f"epsilon {promised[0]:.3g} at delta {promised[1]:g}"
        console.say(f"{defense} promises {promise}")
    bounds = one_run_bounds(scores, included, delta, confidence, guesses)
    rows = [
        (label, f"{bound.epsilon:.3f}", str(bound.guesses), str(bound.right))
        for label, bound in (
            ("any algorithm", bounds.any_algorithm),
            ("Gaussian", bounds.gaussian),
            ("Gaussian, independent canaries", bounds.independent),
        )
    ]
    title = f"Lower bounds of epsilon at delta {delta:g}, {100 * confidence:g}% confidence"
    console.table(title, ["holds for", "epsilon, at least", "guesses", "right"], rows)
    if bounds.doubt:
        console.say(bounds.doubt)
    console.say(f"{bounds.canaries} canaries, {bounds.included} of them in the training set")
    console.say("Quote the first bound, which holds without assumptions. The others hold only if theirs are true.")
    if json_file:
        json_file.write_text(console.document(asdict(bounds)), encoding="utf-8")


@membership.command()
@store_option()
@click.option("--defense", default="plain-training", show_default=True, metavar="NAME", help="The network's training.")
@click.option("--dataset", metavar="NAME", help="The data set. Default: that of the run, if it has one.")
@click.option("--model", metavar="NAME", help="The network. Default: that of the run, if it has one.")
@click.option(
    "--fewest",
    type=click.IntRange(2),
    default=20,
    show_default=True,
    metavar="N",
    help="Members a class must have.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Picture, .svg or .png.")
def embeddings(store: str, defense: str, dataset: str | None, model: str | None, fewest: int, out: Path) -> None:
    """Draw the rows of the classes at most and at least risk as the network sees them, by t-SNE.

    The run must have the evaluators white-box, whose evidence is drawn, and privacy-risk; the first split is taken.
    """
    from imharness.commands import component, console, finished, query
    from imharness.errors import UsageError
    from imharness_membership.embeddings import draw, embedded

    wanted = {"defense": component("defense", defense).label}
    wanted |= {"dataset": component("dataset", dataset).label} if dataset else {}
    wanted |= {"model": component("model", model).label} if model else {}
    targets = [
        task
        for task in finished(store, TRACK, "train")
        if task.options["role"] == "target"
        and task.options["split"] == 0
        and "features" in task.output.arrays
        and wanted.items() <= task.labels.items()
    ]
    if len(targets) != 1:
        raise UsageError(
            f"store {store} has {len(targets)} networks with evidence of the evaluator white-box that fit; "
            "one is drawn: run white-box, or name --dataset and --model."
        )
    (target,) = targets
    labels = {role: target.labels[role].replace("'", "''") for role in ("defense", "dataset", "model")}
    here = " AND ".join(f"{role} = '{label}'" for role, label in {**labels, "evaluator": RISK}.items())
    scored = query(store, TRACK)(
        f"SELECT row, score FROM evaluate WHERE split = 0 AND adaptive AND {here} ORDER BY row"
    )
    order = target.output.rows["row"].argsort()
    if not len(scored["row"]) or (scored["row"] != target.output.rows["row"][order]).any():
        raise UsageError(f"store {store} has no scores of privacy-risk for this network.")
    rows = {name: target.output.rows[name][order] for name in ("label", "member")}
    embedding = embedded(
        target.output.arrays["features"][order], scored["score"] + 0.5, rows["label"], rows["member"], fewest
    )
    draw(embedding, out)
    console.say(f"{out}: {len(embedding.labels)} rows of {len(embedding.risk)} classes")
