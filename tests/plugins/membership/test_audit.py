"""The audit of one's own model: what it reads and refuses, its numbers against slow ways, its report."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from sklearn.metrics import roc_auc_score

from imharness.cli import cli
from imharness.components.registry import installed
from imharness.errors import UsageError
from imharness_membership.audit import auc_interval, audit
from imharness_membership.audit_inputs import Outputs, read_audit
from imharness_membership.roc import roc

CLASSES = 4


def leaking(n: int, rng: np.random.Generator, member: bool) -> tuple[np.ndarray, np.ndarray]:
    labels = rng.integers(0, CLASSES, n)
    logits = rng.normal(size=(n, CLASSES))
    logits[np.arange(n), labels] += 3 if member else 1
    return logits.astype(np.float32), labels


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng, found = np.random.default_rng(0), {}
    for model in ("shadow", "target"):
        for side in ("member", "nonmember"):
            logits, labels = leaking(300, rng, side == "member")
            weights = np.exp(logits)
            found[f"{model}_{side}_outputs"] = weights / weights.sum(axis=1, keepdims=True)
            found[f"{model}_{side}_labels"] = labels
    return found


def saved(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez(folder / "outputs.npz", **arrays)
    return folder / "outputs.npz"


def run(*words: str):
    return CliRunner().invoke(cli, ["membership", "audit", *map(str, words)], catch_exceptions=False)


def as_table(arrays: dict[str, np.ndarray]) -> pa.Table:
    columns: dict[str, list] = {"model": [], "member": [], "label": [], **{f"p{i}": [] for i in range(CLASSES)}}
    for model in ("shadow", "target"):
        for side in ("member", "nonmember"):
            outputs, labels = arrays[f"{model}_{side}_outputs"], arrays[f"{model}_{side}_labels"]
            columns["model"] += [model] * len(labels)
            columns["member"] += [int(side == "member")] * len(labels)
            columns["label"] += labels.tolist()
            for i in range(CLASSES):
                columns[f"p{i}"] += outputs[:, i].tolist()
    return pa.table(columns)


def test_it_prints_writes_and_fails_above(arrays, tmp_path: Path) -> None:
    file = saved(tmp_path, {name: own[:100] for name, own in arrays.items()})
    result = run(file, "--json", tmp_path / "a.json", "--html", tmp_path / "a.html", "--per-class")
    assert result.exit_code == 0
    assert "300 members" not in result.output
    assert "100 members, 100 non-members, 4 classes" in result.output
    facts = json.loads((tmp_path / "a.json").read_text())
    by_name = {f["evaluator"]: f for f in facts["findings"]}
    assert {"harness/confidence", "harness/neural", "harness/privacy-risk"} <= set(by_name)
    confidence = by_name["harness/confidence[per_class=False]"]
    assert confidence["accuracy"]["low"] < confidence["accuracy"]["value"] < confidence["accuracy"]["high"]
    assert 0.6 < confidence["accuracy"]["value"] < 0.9
    page = (tmp_path / "a.html").read_text()
    assert page.count("<svg") == 4
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org/", "").replace("http://purl.org/", "").replace(
        "http://creativecommons.org/", ""
    )
    assert run(file, "--evaluator", "confidence", "--fail-above", "0.99").exit_code == 0
    failing = run(file, "--evaluator", "confidence", "--fail-above", "0.6")
    assert failing.exit_code == 1
    assert "above 0.6" in failing.output


def test_every_format_and_logits_say_the_same(arrays, tmp_path: Path) -> None:
    table, whole = as_table(arrays), read_audit(saved(tmp_path, arrays), logits=False)
    pa.csv.write_csv(table, tmp_path / "t.csv")
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    logits = {k: np.log(v) + 5 if k.endswith("outputs") else v for k, v in arrays.items()}
    np.savez(tmp_path / "logits.npz", **logits)
    for found in (
        read_audit(tmp_path / "t.csv", logits=False),
        read_audit(tmp_path / "t.parquet", logits=False),
        read_audit(tmp_path / "logits.npz", logits=True),
    ):
        for model in ("shadow", "target"):
            np.testing.assert_allclose(found[model].outputs, whole[model].outputs, atol=1e-6)
            np.testing.assert_array_equal(found[model].labels, whole[model].labels)
            np.testing.assert_array_equal(found[model].member, whole[model].member)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("target_member_outputs", None, "no array target_member_outputs"),
        ("target_member_outputs", lambda a: a[:, 0], r"target_member_outputs must be numbers \(rows, classes\)"),
        (
            "shadow_member_outputs",
            lambda a: a[:, :3] / a[:, :3].sum(1, keepdims=True),
            "shadow_member 3|row . is not a class",
        ),
        ("shadow_member_labels", lambda a: a[:5], r"shadow_member_labels must have shape \(300,\)"),
        ("shadow_nonmember_outputs", lambda a: np.where(np.arange(300)[:, None] == 7, np.nan, a), "row 7 holds NaN"),
        ("target_nonmember_outputs", lambda a: np.where(np.arange(300)[:, None] == 9, 0.5, a), "row 9 does not sum"),
        ("target_member_labels", lambda a: np.where(np.arange(300) == 4, 4, a), "row 4 is not a class from 0 to 3: 4"),
        ("target_member_outputs", lambda a: a * 9 - 4, "--logits"),
        ("target_member_outputs", lambda a: a[:0], "has no rows"),
        ("target_member_outputs", lambda a: a[:1], "has one row"),
    ],
)
def test_a_wrong_array_is_named_with_its_row(name: str, change, said: str, arrays, tmp_path: Path) -> None:
    wrong = {k: v for k, v in arrays.items() if k != name}
    if change is not None:
        wrong[name] = change(arrays[name])
        if name.endswith("outputs") and len(wrong[name]) == 0:
            wrong[name.replace("outputs", "labels")] = arrays[name.replace("outputs", "labels")][:0]
    with pytest.raises(UsageError, match=said):
        read_audit(saved(tmp_path, wrong), logits=False)


def test_files_that_are_none_are_named(arrays, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"nothing")
    (tmp_path / "a.csv").write_text("model,member\nshadow,1\n")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    (tmp_path / "a.txt").write_text("")
    for name in ("a.npz", "a.csv", "a.parquet", "a.txt", "b.npz"):
        with pytest.raises(UsageError, match=name):
            read_audit(tmp_path / name, logits=False)
    table = as_table(arrays).set_column(0, "model", pa.array(["victim"] * 1200))
    pa.csv.write_csv(table, tmp_path / "v.csv")
    with pytest.raises(UsageError, match="row 0: model is 'victim'"):
        read_audit(tmp_path / "v.csv", logits=False)
    with pytest.raises(UsageError, match="reference"):
        run(saved(tmp_path, arrays), "--evaluator", "rmia")


def test_auc_and_its_interval_hold() -> None:
    rng = np.random.default_rng(0)
    member = rng.random(400) < 0.4
    scores = (rng.normal(size=400) + member).round(1)
    assert auc_interval(scores, member).value == pytest.approx(roc_auc_score(member, scores), abs=1e-12)
    assert auc_interval(scores.astype(np.float32), member) == auc_interval(scores, member)
    true, covered = 0.7602499389065233, 0
    for _ in range(300):
        scores = np.r_[rng.normal(1, 1, 80), rng.normal(0, 1, 60)]
        found = auc_interval(scores, np.arange(140) < 80)
        covered += found.low <= true <= found.high
    assert covered >= 0.92 * 300


def test_a_long_roc_keeps_its_ends_and_stays_on_the_curve() -> None:
    rng = np.random.default_rng(1)
    member = rng.random(20_000) < 0.5
    scores = rng.normal(size=20_000) + member
    fpr, tpr = roc(scores, member)
    assert len(fpr) <= 400
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    for i in (50, 150, len(fpr) - 2):
        threshold = np.sort(scores[~member])[::-1][round(fpr[i] * (~member).sum()) - 1]
        assert tpr[i] == pytest.approx(np.mean(scores[member] >= threshold), abs=1e-3)


def test_the_strongest_of_attacks_that_guess_is_not_chosen_on_what_it_is_judged_by() -> None:
    shown, largest = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        parts = [
            Outputs(rng.dirichlet(np.ones(4), 200).astype(np.float32), rng.integers(0, 4, 200), np.arange(200) < 100)
            for _ in range(2)
        ]
        names = ("confidence", "entropy", "modified-entropy", "correctness")
        evaluators = [c for name in names for c in installed().find("evaluator", name)]
        found = audit(*parts, evaluators, lambda done, total: None)
        shown.append(found.worst().accuracy.value)
        largest.append(max(f.accuracy.value for f in found.findings))
    assert abs(np.mean(shown) - 0.5) < 3 * np.std(shown) / 40**0.5
    assert np.mean(largest) - 0.5 > 6 * np.std(largest) / 40**0.5


def test_a_rate_needs_as_many_non_members_as_one_over_it(arrays, tmp_path: Path) -> None:
    result = run(saved(tmp_path, arrays), "--evaluator", "confidence", "--json", tmp_path / "a.json")
    assert result.exit_code == 0
    (finding, *_) = json.loads((tmp_path / "a.json").read_text())["findings"]
    assert finding["tpr_at_01"] is None
    assert finding["tpr_at_1"]["low"] <= finding["tpr_at_1"]["value"]
