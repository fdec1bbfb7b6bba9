"""The audit of one's own model: what it reads and refuses, its numbers beside slower computations, its report."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

import imharness as ih
from imharness.cli import cli, console
from imharness.components.registry import installed
from imharness.errors import UsageError
from imharness.membership import Estimate
from imharness_membership.audit import MANY, SLOW, audit, standard
from imharness_membership.audit_inputs import Outputs, read_audit
from imharness_membership.intervals import LEVEL, area_under
from imharness_membership.roc import roc

CLASSES = 4


def leaking(n: int, rng: np.random.Generator, member: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return logits and labels of n rows; the true logit of members is larger."""
    labels = rng.integers(0, CLASSES, n)
    logits = rng.normal(size=(n, CLASSES))
    logits[np.arange(n), labels] += 3 if member else 1
    return logits.astype(np.float32), labels


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    rng, outputs = np.random.default_rng(0), {}
    for model in ("shadow", "target"):
        for side in ("member", "nonmember"):
            logits, labels = leaking(300, rng, side == "member")
            weights = np.exp(logits)
            outputs[f"{model}_{side}_outputs"] = weights / weights.sum(axis=1, keepdims=True)
            outputs[f"{model}_{side}_labels"] = labels
    return outputs


def saved(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez(folder / "outputs.npz", **arrays)
    return folder / "outputs.npz"


def run(*words: str):
    return CliRunner().invoke(cli, ["membership", "audit", *map(str, words)], catch_exceptions=False)


def as_table(arrays: dict[str, np.ndarray]) -> pa.Table:
    """Return the arrays of an npz file as a table with a line for each row of a model."""
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


@pytest.mark.parametrize("name", ["q2", "p_2", "p9", "p2a"])
def test_a_column_between_others_that_has_another_name_is_missed(arrays, name: str, tmp_path: Path) -> None:
    """Without this check, columns after the missing one were ignored: with logits, p0 and p1 were all classes."""
    table = as_table(arrays)
    logits = table.set_column(table.column_names.index("p0"), "p0", pa.array(np.full(len(table), -3.0)))
    labels = logits.set_column(2, "label", pa.array(np.arange(len(table)) % 2))
    file = tmp_path / "outputs.csv"
    pa.csv.write_csv(labels.rename_columns([name if old == "p2" else old for old in table.column_names]), file)
    with pytest.raises(UsageError, match=r"outputs\.csv has a column 'p\S+' and no column p2"):
        run(file, "--logits", "--evaluator", "entropy")
    with pytest.raises(UsageError, match=r"target has a column 'p.*' and no column p2"):
        ih.audit(pd.read_csv(file), evaluators=["entropy"])


def test_capitals_and_spaces_in_names_of_columns_do_not_count(arrays, tmp_path: Path) -> None:
    table = as_table(arrays)
    pa.csv.write_csv(table, tmp_path / "a.csv")
    pa.csv.write_csv(table.rename_columns([f" {name.upper()}" for name in table.column_names]), tmp_path / "b.csv")
    expected, read = (read_audit(tmp_path / name, False)["target"] for name in ("a.csv", "b.csv"))
    np.testing.assert_array_equal(read.outputs, expected.outputs)
    pa.csv.write_csv(table.append_column("Member", table["member"]), tmp_path / "c.csv")
    with pytest.raises(UsageError, match="more than one column 'member'"):
        read_audit(tmp_path / "c.csv", False)


def test_it_prints_writes_and_fails_above(arrays, tmp_path: Path) -> None:
    file = saved(tmp_path, {name: rows[:60] for name, rows in arrays.items()})
    result = run(file, "--json", tmp_path / "a.json", "--html", tmp_path / "a.html", "--per-class")
    assert result.exit_code == 0
    assert "300 members" not in result.output
    assert "60 members, 60 non-members, 4 classes" in result.output
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
    assert failing.output.startswith("Verdict: fails, above 0.6; shown 100 records, half of them members, ")
    assert result.output.startswith("No threshold was given: shown 100 records")


def test_the_pictures_show_the_numbers_of_the_audit(arrays, tmp_path: Path, figures: list[Figure]) -> None:
    words = ["--evaluator", "entropy", "--evaluator", "confidence"]
    run(saved(tmp_path, arrays), "--json", tmp_path / "a.json", "--html", tmp_path / "a.html", *words)
    facts = json.loads((tmp_path / "a.json").read_text())
    risk, least = facts["risk"], 0.5 / facts["nonmembers"]
    roc, shares, calibration, classes = (figure.axes[0] for figure in figures)
    *curves, chance = roc.lines
    for line, finding in zip(curves, facts["findings"], strict=True):
        assert line.get_label() == finding["evaluator"].removeprefix("harness/")
        np.testing.assert_array_equal(line.get_xydata().T, np.maximum(finding["roc"], least))
    assert [*map(tuple, chance.get_xydata())] == [(least, least), (1, 1)]
    (line,) = shares.lines
    np.testing.assert_allclose(line.get_xydata(), [(q, i / 100) for i, q in enumerate(risk["member_quantiles"])])
    (points,) = calibration.collections
    np.testing.assert_array_equal(points.get_offsets(), [*zip(risk["predicted"], risk["real"], strict=True)])
    np.testing.assert_allclose(np.diff(points.get_sizes()), 150 * np.diff(risk["rows"]) / max(risk["rows"]))
    (points,) = classes.collections
    np.testing.assert_array_equal(points.get_offsets(), [(gap, mean) for mean, gap in risk["by_class"].values()])
    assert [(axes.get_xlabel(), axes.get_ylabel()) for axes in (roc, shares, calibration, classes)] == [
        ("false-positive rate", "true-positive rate"),
        ("risk score", "share of members"),
        ("risk score", "true share of members"),
        ("train minus test accuracy", "mean risk score of members"),
    ]


def test_every_format_and_logits_say_the_same(arrays, tmp_path: Path) -> None:
    table, whole = as_table(arrays), read_audit(saved(tmp_path, arrays), logits=False)
    pa.csv.write_csv(table, tmp_path / "t.csv")
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    logits = {k: np.log(v) + 5 if k.endswith("outputs") else v for k, v in arrays.items()}
    np.savez(tmp_path / "logits.npz", **logits)
    for loaded in (
        read_audit(tmp_path / "t.csv", logits=False),
        read_audit(tmp_path / "t.parquet", logits=False),
        read_audit(tmp_path / "logits.npz", logits=True),
    ):
        for model in ("shadow", "target"):
            np.testing.assert_allclose(loaded[model].outputs, whole[model].outputs, atol=1e-6)
            np.testing.assert_array_equal(loaded[model].labels, whole[model].labels)
            np.testing.assert_array_equal(loaded[model].member, whole[model].member)


def test_a_table_may_lack_the_shadow_where_none_is_asked_for(arrays, tmp_path: Path) -> None:
    table = as_table(arrays)
    pa.csv.write_csv(table.filter(pa.array(np.array(table["model"]) == "target")), tmp_path / "t.csv")
    assert read_audit(tmp_path / "t.csv", logits=False, shadow=False).keys() == {"target"}
    with pytest.raises(UsageError, match="shadow_member_outputs"):
        read_audit(tmp_path / "t.csv", logits=False)


@pytest.mark.parametrize(
    ("name", "change", "message"),
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
        ("target_member_outputs", lambda a: a[:, :1], "at least 2 classes"),
    ],
)
def test_a_wrong_array_is_named_with_its_row(name: str, change, message: str, arrays, tmp_path: Path) -> None:
    wrong = {k: v for k, v in arrays.items() if k != name}
    if change is not None:
        wrong[name] = change(arrays[name])
        if name.endswith("outputs") and len(wrong[name]) == 0:
            wrong[name.replace("outputs", "labels")] = arrays[name.replace("outputs", "labels")][:0]
    with pytest.raises(UsageError, match=message):
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


def auc_interval(scores: np.ndarray, member: np.ndarray) -> Estimate:
    return area_under(scores, member).at(LEVEL)


def test_auc_and_its_interval_hold() -> None:
    rng = np.random.default_rng(0)
    member = rng.random(400) < 0.4
    scores = (rng.normal(size=400) + member).round(1)
    assert auc_interval(scores, member).value == pytest.approx(roc_auc_score(member, scores), abs=1e-12)
    assert area_under(scores.astype(np.float32), member) == area_under(scores.astype(np.float32).astype(float), member)
    true, covered = 0.7602499389065233, 0  # Phi(1 / sqrt(2)), the area of unit Gaussians with means 0 and 1
    for _ in range(300):
        scores = np.r_[rng.normal(1, 1, 80), rng.normal(0, 1, 60)]
        interval = auc_interval(scores, np.arange(140) < 80)
        covered += interval.low <= true <= interval.high
    assert covered >= 0.92 * 300


def mixed(rng: np.random.Generator, n: int, member: bool) -> np.ndarray:
    """Return scores of one side; one in fifty non-members scores higher than every member."""
    return np.where(rng.random(n) < 0.02 * (not member), 10, rng.random(n) + 2 * member)


@pytest.mark.parametrize(
    ("draw", "area"),
    [
        (lambda rng, n, member: rng.normal(size=n), 0.5),
        (lambda rng, n, member: rng.normal(size=n) + 3.3 * member, norm.cdf(3.3 / 2**0.5)),
        (lambda rng, n, member: rng.random(n) < (0.9 if member else 0.5), 0.7),
        (lambda rng, n, member: rng.random(n) < (0.05 if member else 0.02), 0.515),
        (mixed, 0.98),
    ],
    ids=["chance", "almost apart", "two values", "few hits", "few exceptions"],
)
@pytest.mark.parametrize("sides", [(20, 20), (20, 200), (200, 60)])
def test_the_interval_of_the_auc_covers_from_20_rows_a_side(draw, area: float, sides: tuple[int, int]) -> None:
    rng, member = np.random.default_rng(5), np.arange(sum(sides)) < sides[0]
    intervals = [auc_interval(np.r_[draw(rng, sides[0], True), draw(rng, sides[1], False)], member) for _ in range(500)]
    covered = np.mean([interval.low - 1e-12 <= area <= interval.high + 1e-12 for interval in intervals])
    assert covered >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 500)
    assert all(interval.low <= interval.value <= interval.high for interval in intervals)
    assert min(interval.high - interval.low for interval in intervals) > 0.4 / max(sides)


def test_equal_and_separated_scores_have_an_interval_with_a_width() -> None:
    member = np.arange(40) < 20
    ties, apart = auc_interval(np.zeros(40), member), auc_interval(member.astype(float), member)
    assert ties.low < 0.45 < 0.55 < ties.high
    assert apart.low < 0.85
    assert apart.high == 1


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
    accuracies, largest = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        datasets = [
            Outputs(rng.dirichlet(np.ones(4), 200).astype(np.float32), rng.integers(0, 4, 200), np.arange(200) < 100)
            for _ in range(2)
        ]
        names = ("confidence", "entropy", "modified-entropy", "correctness")
        evaluators = [c for name in names for c in installed().find("evaluator", name)]
        result = audit(*datasets, evaluators, lambda done, total: None)
        accuracies.append(result.worst().accuracy.value)
        largest.append(max(f.accuracy.value for f in result.findings))
    assert abs(np.mean(accuracies) - 0.5) < 3 * np.std(accuracies) / 40**0.5
    assert np.mean(largest) - 0.5 > 6 * np.std(largest) / 40**0.5


def test_a_rate_needs_as_many_non_members_as_one_over_it(arrays, tmp_path: Path) -> None:
    result = run(saved(tmp_path, arrays), "--evaluator", "confidence", "--json", tmp_path / "a.json")
    assert result.exit_code == 0
    (finding, *_) = json.loads((tmp_path / "a.json").read_text())["findings"]
    assert finding["tpr_at_01"] is None
    assert finding["tpr_at_1"]["low"] <= finding["tpr_at_1"]["value"]
    assert "TPR at 0.1% FPR is not defined: too few non-members" in result.output
    assert "when chosen" in result.output


def test_a_narrow_terminal_has_a_line_for_each_evaluator(arrays, tmp_path: Path, monkeypatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(console, "out", console.Console(file=screen, width=80, force_terminal=True, highlight=False))
    run(saved(tmp_path, arrays), "--evaluator", "entropy", "--evaluator", "modified-entropy[per_class=false]")
    lines = screen.getvalue().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("evaluator"))
    assert lines[head].split("  ")[-1].strip() == "TPR at 1% FPR"
    rows = sorted(line.split()[0] for line in lines[head + 1 : head + 3])
    assert rows == ["entropy", "modified-entropy[per_class=False]"]
    assert max(map(len, lines[head : head + 3])) <= 80


def test_a_class_without_non_members_or_members_has_no_accuracy_and_the_others_do() -> None:
    rng = np.random.default_rng(0)
    datasets = []
    for _ in range(2):
        logits, labels = leaking(400, rng, False)
        member = np.arange(400) < 200
        labels[member & (labels == 0)] = 1
        labels[~member & (labels == 3)] = 2
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        datasets.append(Outputs(shares.astype(np.float32), labels, member))
    result = audit(*datasets, installed().find("evaluator", "correctness"), lambda done, total: None)
    (finding,) = result.findings
    assert result.risk.correlation is None, "of two classes"
    right = datasets[1].outputs.argmax(axis=1) == datasets[1].labels
    assert finding.by_class[0] is None
    assert finding.by_class[3] is None
    for label in (1, 2):
        inside, outside = (right[(datasets[1].labels == label) & side] for side in (member, ~member))
        assert finding.by_class[label] == pytest.approx((inside.mean() + 1 - outside.mean()) / 2)


@pytest.mark.parametrize(("rows", "slow"), [(MANY, True), (MANY + 1, False)])
def test_the_slow_attack_takes_part_up_to_many_rows(rows: int, slow: bool) -> None:
    taken = {evaluator.info.id for evaluator in standard(installed().of_kind("evaluator"), rows)}
    assert (SLOW in taken) == slow
    assert "harness/confidence" in taken
