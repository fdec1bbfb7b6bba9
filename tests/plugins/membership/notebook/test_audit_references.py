"""`ih.audit` with the answers of reference models, given or read from a file; what does not fit is named."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import imharness as ih
from imharness.cli import cli
from imharness.errors import UsageError
from imharness_membership.audit_references import KnownReferences
from imharness_membership.audit_report import page
from imharness_membership.findings import AuditSubject
from imharness_membership.reference_doubts import doubts_of_references
from imharness_membership.reference_models import ReferenceModels

CLASSES, ROWS, COUNT = 4, 240, 6
ATTACKS = ["lira", "rmia", "attack-r"]


def world(seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Return a target's arrays, and the references' probabilities (COUNT, ROWS, CLASSES) and membership (COUNT, ROWS).

    Each model has half of the rows as members, on which it is surer.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, ROWS)
    masks = rng.random((COUNT + 1, ROWS)).argsort(axis=1) < ROWS // 2
    masks[0] = np.arange(ROWS) < ROWS // 2  # the target's members come first, as in npz files
    logits = rng.normal(size=(COUNT + 1, ROWS, CLASSES)) + rng.normal(0, 2, (ROWS, 1)) * np.eye(CLASSES)[labels]
    logits[:, np.arange(ROWS), labels] += 1 + 2 * masks
    shares = np.exp(logits).astype(np.float32)
    shares /= shares.sum(axis=2, keepdims=True)
    return {"probabilities": shares[0], "labels": labels, "member": masks[0]}, shares[1:], masks[1:]


def odds_of(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    true = probabilities[:, np.arange(len(labels)), labels].astype(np.float64)
    return np.log(true) - np.log1p(-true)


def arrays_of(model: str, answers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays of a file of outputs: for members and non-members of a model, probabilities and labels."""
    arrays = {}
    for side, rows in (("member", answers["member"]), ("nonmember", ~answers["member"])):
        arrays[f"{model}_{side}_outputs"] = answers["probabilities"][rows]
        arrays[f"{model}_{side}_labels"] = answers["labels"][rows]
    return arrays


def test_the_command_gives_what_the_function_gives_from_npz_and_parquet(tmp_path: Path) -> None:
    target, probabilities, member = world()
    shadow, _, _ = world(1)
    odds = odds_of(probabilities, target["labels"])
    np.savez(tmp_path / "outputs.npz", **arrays_of("target", target), **arrays_of("shadow", shadow))
    np.savez(tmp_path / "refs.npz", log_odds=odds, member=member)
    positions = {"reference": np.repeat(np.arange(COUNT), ROWS), "row": np.tile(np.arange(ROWS), COUNT)}
    frame = pd.DataFrame({**positions, "member": member.ravel().astype(int), "log_odds": odds.ravel()})
    frame.sample(frac=1, random_state=0).to_parquet(tmp_path / "refs.parquet")
    wide = pd.DataFrame({**positions, "member": member.ravel().astype(int)})
    wide[[f"p{c}" for c in range(CLASSES)]] = probabilities.reshape(-1, CLASSES)
    wide.to_csv(tmp_path / "refs.csv", index=False)
    expected = ih.audit(target, shadow, references=(odds, member), evaluators=ATTACKS).details
    assert expected.per_record is not None
    for name in ("refs.npz", "refs.parquet", "refs.csv"):
        words = ["membership", "audit", "outputs.npz", "--references", name, "--json", "a.json", "--html", "a.html"]
        paths = [str(tmp_path / word) if "." in word else word for word in words]
        ran = CliRunner().invoke(
            cli, [*paths, *(w for a in ATTACKS for w in ("--evaluator", a))], catch_exceptions=False
        )
        assert ran.exit_code == 0, ran.output
        facts = json.loads((tmp_path / "a.json").read_text())
        assert facts["references"] == COUNT
        assert str(expected.per_record) in " ".join(ran.output.split())
        assert facts["per_record"]["tpr"]["value"] == expected.per_record.tpr.value
        areas = {finding["evaluator"]: finding["auc"]["value"] for finding in facts["findings"]}
        assert areas == pytest.approx({finding.evaluator: finding.auc.value for finding in expected.findings}, abs=1e-4)
        assert "6 reference models answered" in (tmp_path / "a.html").read_text()
        assert str(expected.per_record) in (tmp_path / "a.html").read_text()


def test_the_command_says_how_many_accusations_are_right_at_a_prior_and_reads_views(tmp_path: Path) -> None:
    target, probabilities, member = world()
    odds = odds_of(probabilities, target["labels"])
    np.savez(tmp_path / "outputs.npz", **arrays_of("target", target))
    views = {"views": odds[:, None] + 0.1, "target_views": odds_of(target["probabilities"][None], target["labels"])}

    def answer(prior: str, **references: np.ndarray) -> str:
        np.savez(tmp_path / "refs.npz", member=member, **references)
        words = ["membership", "audit", str(tmp_path / "outputs.npz"), "--references", str(tmp_path / "refs.npz")]
        ran = CliRunner().invoke(cli, [*words, "--evaluator", "lira", "--prior", prior])
        return " ".join(f"{ran.output} {ran.exception}".split())

    references = {"probabilities": probabilities, **views}
    share = ih.audit(target, references={"member": member, **references}, evaluators=["lira"]).ppv(0.01)
    assert share is not None
    text = answer("0.01", **references)
    assert "If 0.01 of the records asked about are members, and 0.83 % of the others are accused" in text
    assert f"{100 * share.value:.0f} of 100 accusations are right" in text
    assert "asked about views of each row: 1" in text
    assert "too few non-members to say how many accusations of lira are right" in answer("0.01", log_odds=odds)
    assert "--prior: give a share above 0 and below 1" in answer("0", log_odds=odds)


def test_a_file_of_references_needs_no_shadow(tmp_path: Path) -> None:
    target, probabilities, member = world()
    np.savez(tmp_path / "a.npz", **arrays_of("target", target))
    np.savez(tmp_path / "refs.npz", probabilities=probabilities, member=member)
    np.savez(tmp_path / "outside.npz", probabilities=probabilities, member=np.zeros_like(member))
    for name, members in (("refs.npz", 120), ("outside.npz", 60)):
        words = ["membership", "audit", "a.npz", "--references", name, "--json", "b.json"]
        paths = [str(tmp_path / word) if "." in word else word for word in words]
        ran = CliRunner().invoke(cli, [*paths, "--evaluator", "rmia"], catch_exceptions=False)
        assert ran.exit_code == 0, ran.output
        assert json.loads((tmp_path / "b.json").read_text())["members"] == members
    with pytest.raises(UsageError, match="has no array shadow_member_outputs"):
        CliRunner().invoke(cli, ["membership", "audit", str(tmp_path / "a.npz")], catch_exceptions=False)


def report_of(audit_result: ih.Audit) -> str:
    return page(audit_result.details, AuditSubject("model", "repeat"), ReferenceModels((), "There are none."))


def test_the_report_says_what_references_there_were_and_where_they_differ() -> None:
    target, probabilities, member = world()
    result = ih.audit(target, references=(probabilities, member), evaluators=ATTACKS)
    text = report_of(result)
    assert "6 <b>reference models</b>" in text
    assert str(result.details.per_record) in text
    assert "These models differ" not in text
    assert result.call.startswith("ih.audit(target, references=references, evaluators=")
    changed = {**target, "probabilities": np.full((ROWS, CLASSES), 1 / CLASSES)}
    other = report_of(ih.audit(changed, references=(probabilities, member), evaluators=ATTACKS))
    assert "These models differ from the tested one" in other


def test_without_labels_the_predicted_class_stands_for_the_true_one(tmp_path: Path) -> None:
    target, probabilities, member = world()
    unlabelled = {name: target[name] for name in ("probabilities", "member")}
    result = ih.audit(unlabelled, references=(probabilities, member), evaluators=[*ATTACKS, "confidence"])
    assert (result.rows()["auc"] > 0.55).all()
    assert "without labels" in result.measured
    assert result.details.per_record is None
    assert result.details.train_accuracy is None
    assert "The true classes were not given" in report_of(result)
    result.to_html(tmp_path / "all.html")
    assert "Without labels" in (tmp_path / "all.html").read_text()
    alone = ih.audit(unlabelled, evaluators=["entropy", "confidence"])
    assert "correctness, as it says nothing without the true classes" in repr(alone)
    with pytest.raises(UsageError, match="correctness cannot take part, as it says nothing"):
        ih.audit(unlabelled, evaluators=["correctness"])
    with pytest.raises(UsageError, match="without labels, give probabilities"):
        ih.audit(unlabelled, references=(odds_of(probabilities, target["labels"]), member))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda odds, member: (odds[:, :9], member), "references: answers must be log odds"),
        (lambda odds, member: (odds[:3], member[:3]), "references: answers: at least 4 reference models"),
        (lambda odds, member: (odds, member[:, :9]), "references: member must hold true and false with shape"),
        (
            lambda odds, member: (odds, np.where(np.arange(member.size).reshape(member.shape) == 7, 2, member)),
            "references: member must hold true and false",
        ),
        (lambda odds, member: (odds * np.nan, member), "references: answers holds NaN or infinity"),
        (lambda odds, member: (1 / (1 + np.exp(-odds)), member), "lie in .0, 1.; log odds are needed"),
        (
            lambda odds, member: (odds, member * (np.arange(6) > 0)[:, None]),
            "reference 0 was trained on all or on none",
        ),
        (lambda odds, member: (odds[[0, 1, 2, 3, 1]], member[:5]), "references 1 and 4 give the same answers, as one"),
        (lambda odds, member: (np.tile(odds[:1] * (1 + 1e-6), (6, 1)), member), "give the same answers, as one model"),
        (lambda odds, member: {"log_odds": odds}, "references: expected a mapping with member"),
        (lambda odds, member: 16, "a number only with train="),
    ],
)
def test_references_that_do_not_fit_are_named(change, message: str) -> None:
    target, probabilities, member = world()
    with pytest.raises(UsageError, match=message):
        ih.audit(target, references=change(odds_of(probabilities, target["labels"]), member))


def test_a_shadow_is_refused_beside_references_of_other_rows_and_online_lira_too() -> None:
    target, probabilities, member = world()
    outside = {"probabilities": probabilities, "member": np.zeros_like(member)}
    with pytest.raises(UsageError, match="shadow: leave it out"):
        ih.audit(target, world(1)[0], references=outside)
    with pytest.raises(UsageError, match="lira cannot take part, as no reference model was trained"):
        ih.audit(target, references=outside, evaluators=["lira"])
    with pytest.raises(UsageError, match="white-box needs gradients; an audit has outputs and references only"):
        ih.audit(target, references=outside, evaluators=["white-box"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda answers: answers.pop("target_views"),
            "views of the references and target_views of the target, or neither",
        ),
        (
            lambda answers: answers.update(views=answers["views"][:, :, :-1]),
            r"views must be finite log odds with shape \(6",
        ),
        (
            lambda answers: answers.update(views=answers["views"][:, :1]),
            "views holds 1 views of each row and target_views 2",
        ),
        (lambda answers: answers["target_views"].__setitem__((0, 0), np.nan), "target_views must be finite log odds"),
        (
            lambda answers: answers.update(target_views=answers["target_views"][0]),
            "target_views must be finite log odds",
        ),
    ],
)
def test_views_that_do_not_fit_are_named(change, message: str) -> None:
    target, probabilities, member = world()
    odds = odds_of(probabilities, target["labels"])
    answers = {
        "log_odds": odds,
        "member": member,
        "views": np.stack([odds, odds], axis=1),
        "target_views": odds[:2] + 1,
    }
    change(answers)
    with pytest.raises(UsageError, match=message):
        ih.audit(target, references=answers, evaluators=["lira"])


def shuffled_rows(count: int) -> np.ndarray:
    return np.random.default_rng(5).permutation(count)


# By a mistake: the function of log odds, membership and an order of rows that makes it, and the reason that is given.
MIXED_UP = {
    "log odds of rows in another order": (
        lambda odds, member, order: {"log_odds": odds[:, order], "member": member},
        "in the order of the target's rows",
    ),
    "both in another order": (
        lambda odds, member, order: {"log_odds": odds[:, order], "member": member[:, order]},
        "in the order of the target's rows",
    ),
    "losses": (
        lambda odds, member, order: {"log_odds": np.log1p(np.exp(-odds)), "member": member},
        "are all of them log p - log(1 - p)",
    ),
    "log odds of the other classes": (
        lambda odds, member, order: {"log_odds": -odds, "member": member},
        "are all of them log p - log(1 - p)",
    ),
    "members in another order": (
        lambda odds, member, order: {"log_odds": odds, "member": member[:, order]},
        "Does `member` say of each reference model",
    ),
    "members reversed": (
        lambda odds, member, order: {"log_odds": odds, "member": ~member},
        "Does `member` say of each reference model",
    ),
    "views in another order": (
        lambda odds, member, order: {
            "log_odds": odds,
            "member": member,
            "views": odds[:, None, order],
            "target_views": odds[:1],
        },
        "what they answer to views does not agree",
    ),
    "views of the target in another order": (
        lambda odds, member, order: {
            "log_odds": odds,
            "member": member,
            "views": odds[:, None],
            "target_views": odds[:1, order],
        },
        "what the target answers to views does not agree",
    ),
}


@pytest.mark.parametrize("name", MIXED_UP)
def test_references_of_other_rows_pass_nothing_and_say_why(name: str) -> None:
    (target, probabilities, member), (change, why) = world(), MIXED_UP[name]
    odds = odds_of(probabilities, target["labels"])
    references = change(odds, member, shuffled_rows(ROWS))
    worst = ih.audit(target, references=references, evaluators=["lira"]).worst
    assert worst.accuracy.against(0.95) != "passes"
    assert why in " ".join(worst.accuracy.why_not(0.95))


@pytest.mark.parametrize("leak", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("hardness", [0.0, 2.0])
def test_references_in_order_are_doubted_by_nobody_whatever_the_target_leaks(leak: float, hardness: float) -> None:
    """Of nine models the first is the target and the others are references; rows are equally hard for all models."""
    n = 120
    for seed in range(10):
        rng = np.random.default_rng(seed)
        member = rng.random((9, n)) < 0.5
        odds = rng.normal(size=(9, n)) + hardness * rng.normal(size=n) + leak * member
        trained, outside = (KnownReferences(odds[1:], masks) for masks in (member[1:], np.zeros_like(member[1:])))
        assert not list(doubts_of_references(odds[0], member[0], trained)), seed
        assert not list(doubts_of_references(odds[0], member[0], outside)), seed
        # another target, which agrees with the mean of the references
        alike = rng.normal(size=n) + 0.4 * hardness * rng.normal(size=n) + 0.6 * odds[1:].mean(axis=0)
        assert not list(doubts_of_references(alike, member[0], outside)), seed


def test_constant_answers_are_doubted_by_nobody() -> None:
    constant = KnownReferences(np.ones((8, 120)), np.zeros((8, 120), dtype=bool))
    assert not list(doubts_of_references(np.ones(120), np.arange(120) < 60, constant))
