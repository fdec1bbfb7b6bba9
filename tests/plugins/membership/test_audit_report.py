"""The report of an audit for readers who are no statisticians: one number, what it is measured on, how to repeat it."""

import functools
import hashlib
import html
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import imharness as ih
from imharness import commands
from imharness.cli import cli
from imharness.errors import Unavailable, UsageError
from imharness_membership import audit as auditing
from imharness_membership import reference_models as scale
from imharness_membership.audit_report import page
from imharness_membership.findings import AuditSubject
from imharness_membership.reference_models import EMBEDDED, ReferenceModels, reference_models

CLASSES, ROWS = 4, 200
QUICK = ("confidence[per_class=false]", "entropy", "correctness")


def outputs(seed: int, gain: float, rows: int = ROWS) -> dict[str, np.ndarray]:
    """Return answers to `rows` members and as many others; members have a true logit that is larger by `gain`."""
    rng = np.random.default_rng(seed)
    labels, member = rng.integers(0, CLASSES, 2 * rows), np.arange(2 * rows) < rows
    logits = rng.normal(size=(2 * rows, CLASSES))
    logits[np.arange(2 * rows), labels] += np.where(member, 1 + gain, 1)
    weights = np.exp(logits)
    probabilities = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return {"probabilities": probabilities, "labels": labels, "member": member}


def saved(folder: Path, gain: float = 2, name: str = "outputs.npz", rows: int = ROWS) -> Path:
    arrays = {}
    for seed, model in enumerate(("target", "shadow")):
        answers = outputs(seed, gain, rows)
        for side, chosen in (("member", answers["member"]), ("nonmember", ~answers["member"])):
            arrays[f"{model}_{side}_outputs"] = answers["probabilities"][chosen]
            arrays[f"{model}_{side}_labels"] = answers["labels"][chosen]
    np.savez(folder / name, **arrays)
    return folder / name


def run(*words: object, evaluators: tuple[str, ...] = QUICK):
    named = [word for name in evaluators for word in ("--evaluator", name)]
    return CliRunner().invoke(cli, ["membership", "audit", *map(str, words), *named])


def shown(page: str) -> str:
    """Return the text of a page as a reader sees it, on one line."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


trained_once = functools.cache(reference_models)


@pytest.fixture(autouse=True)
def _few_reference_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reference models of one split are trained once for all tests; tests about them restore the real function."""
    monkeypatch.setitem(EMBEDDED["options"], "splits", 1)
    monkeypatch.setattr(scale, "reference_models", trained_once)


def test_page_and_command_give_one_number_and_one_verdict(tmp_path: Path) -> None:
    file = saved(tmp_path)
    run(file, "--json", tmp_path / "a.json")
    facts = json.loads((tmp_path / "a.json").read_text())
    result = max(facts["findings"], key=lambda finding: finding["on_shadow"])["accuracy"]
    number = f"{result['value']:.3f} [{result['low']:.3f}, {result['high']:.3f}]"
    for limit, status, verdict, printed in (
        (1.0, 0, "Passes: the threshold 1 is not exceeded", "passes 1"),
        (0.5, 1, "Fails: the threshold 0.5 is exceeded", "fails, above 0.5"),
        (round(result["value"], 2), 1, "lies inside the interval", "not shown to be at most"),
        (None, 0, "No threshold was given", "report:"),
    ):
        words = [] if limit is None else ["--fail-above", limit]
        done = run(file, "--report", tmp_path / "a.html", *words)
        text = shown((tmp_path / "a.html").read_text())
        assert done.exit_code == status, done.output
        assert printed in " ".join(done.output.split())
        assert verdict in text
        assert f"Balanced accuracy of the attack: {number}" in text
        table = text.partition("All attacks")[2]
        assert table.index(number) < table.index("The first attack gives the result")
        assert re.findall(r"\d\.\d{3} \[[^]]+\]", table)[0] == number


def test_a_class_with_rows_of_one_kind_alone_has_no_number_and_changes_no_other(tmp_path: Path) -> None:
    """Class 0 has members alone, class 1 non-members alone; the others are as they were."""
    file = saved(tmp_path)
    arrays = dict(np.load(file))
    for kind, lost in (("nonmember", 0), ("member", 1)):
        labels = arrays[f"target_{kind}_labels"]
        mask = labels != lost
        arrays[f"target_{kind}_labels"] = labels[mask]
        arrays[f"target_{kind}_outputs"] = arrays[f"target_{kind}_outputs"][mask]
    np.savez(tmp_path / "one-sided.npz", **arrays)
    read = []
    for name in ("outputs", "one-sided"):
        run(tmp_path / f"{name}.npz", "--json", tmp_path / f"{name}.json", evaluators=("correctness",))
        read.append(json.loads((tmp_path / f"{name}.json").read_text()))
    whole, cut = ({int(c): value for c, value in facts["findings"][0]["by_class"].items()} for facts in read)
    assert (cut[0], cut[1]) == (None, None)
    assert [cut[c] for c in (2, 3)] == [whole[c] for c in (2, 3)]
    assert None not in whole.values()
    whole, cut = ({int(c): value for c, value in facts["risk"]["by_class"].items()} for facts in read)
    assert cut[0][0] is not None
    assert (cut[0][1], cut[1]) == (None, [None, None])
    assert [cut[c][1] for c in (2, 3)] == [whole[c][1] for c in (2, 3)]


def test_it_names_what_was_not_tested_with_why_and_what_the_words_mean(tmp_path: Path) -> None:
    done = run(saved(tmp_path), "--report", tmp_path / "a.html")
    text = shown((tmp_path / "a.html").read_text())
    assert "attack-r, bavaria, lira, rmia, for want of reference models" in text
    assert "label-only, for want of the model's answers to noisy copies" in text
    assert "white-box, for want of the model itself" in text
    assert "neural" in text.partition("as others were asked for")[0].partition("What was not tested")[2]
    assert "A member is a record that the model was trained on" in text
    printed = " ".join(done.output.split())
    assert "not tested: attack-r, bavaria, lira, rmia, for want of reference models" in printed


def test_one_attack_was_not_chosen_and_is_not_said_to_be_left_out(tmp_path: Path) -> None:
    done = run(saved(tmp_path), "--report", tmp_path / "a.html", evaluators=("confidence",))
    text = shown((tmp_path / "a.html").read_text())
    assert "The first attack gives the result" not in text
    assert "The first row is the result" not in done.output
    left_out = text.partition("What was not tested")[2].partition("What to do")[0].split()
    assert "confidence[per_class=False]," in left_out
    assert "confidence," not in left_out


def test_digests_and_the_command_repeat_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = saved(tmp_path, name="two words; ü.npz")
    run(file, "--report", tmp_path / "a.html", "--fail-above", 0.9, "--model", "it's")
    page = (tmp_path / "a.html").read_text()
    assert hashlib.sha256(file.read_bytes()).hexdigest() in page
    target = outputs(0, 2)
    raw = b"".join(
        target[name].astype(kind).tobytes()
        for name, kind in (("probabilities", "<f4"), ("labels", "<i8"), ("member", "?"))
    )
    assert hashlib.sha256(raw).hexdigest() in page
    (command,) = re.findall(r"<p><code>(.*?)</code></p>", page)
    (tmp_path / "a.html").unlink()
    harness, *words = shlex.split(html.unescape(command))
    assert harness == "harness"
    monkeypatch.setattr(scale, "reference_models", reference_models)
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert (tmp_path / "a.html").read_text() == page


def test_the_page_says_what_it_answers_of_two_texts() -> None:
    """The texts are Opinion 28/2024 of the EDPB and the standard AISVS.

    A model that leaks lies above a guess, one that does not leak does not, and reversed flags show nothing.
    """
    references = ReferenceModels((), "There are none.")
    swapped = {**outputs(0, 2), "member": ~outputs(0, 2)["member"]}
    for target, other, sentence in (
        (
            outputs(0, 2),
            outputs(1, 2),
            r"11\.2\.5 [^.]+\. Does not hold: 0\.\d{3} \[0\.\d{3}, 0\.\d{3}\] lies above 0\.5",
        ),
        (outputs(2, 0, 1000), outputs(3, 0, 1000), r"Not refuted: .* holds 0\.5; up to 0\.\d{3} is not excluded"),
        (swapped, outputs(1, 2), r"11\.2\.5 [^.]+\. Not shown: see what stands under the verdict"),
    ):
        result = ih.audit(target, other, evaluators=QUICK).details
        text = shown(page(result, AuditSubject("m", "repeat"), references))
        table = text.partition("What it answers of two texts")[2].partition("All attacks")[0]
        assert re.search(sentence, table), table
        assert "EDPB 28/2024, para. 55" in table
        assert "Not tested: attribute inference, exfiltration" in table
        number = re.search(r"0\.\d{3} \[", table)
        assert number is None or number[0] in text.partition("All attacks")[2]


def test_a_notebook_gives_the_page_of_the_command(tmp_path: Path) -> None:
    result = ih.audit(outputs(0, 2), outputs(1, 2), evaluators=QUICK)
    result.report(tmp_path / "own.html", model="m", fail_above=0.6)
    run(saved(tmp_path), "--report", tmp_path / "a.html", "--model", "m", "--fail-above", 0.6)
    notebook_page, other = (
        shown((tmp_path / name).read_text()).partition("How to repeat it")[0] for name in ("own.html", "a.html")
    )
    assert notebook_page == other
    assert "ih.audit(target, shadow, evaluators=['harness/confidence[per_class=False]'" in shown(
        (tmp_path / "own.html").read_text()
    )
    assert result.worst.evaluator == result.table().labels[0]
    assert result.worst.accuracy.value == result.table().column("accuracy")[0]
    with pytest.raises(UsageError, match="fail_above: expected a number from 0 to 1"):
        result.report(tmp_path / "b.html", fail_above=60)
    with pytest.raises(UsageError, match="must end in"):
        result.report(tmp_path / "b.txt")


def test_without_a_shadow_the_page_says_that_the_attacker_knew_more(tmp_path: Path) -> None:
    ih.audit(outputs(0, 2), evaluators=QUICK).report(tmp_path / "a.html")
    text = shown((tmp_path / "a.html").read_text())
    assert "more than most attackers know" in text
    assert "They learned from 200 records of the model itself" in text
    assert "ih.audit(target, evaluators=" in text


def test_everything_is_escaped_and_nothing_is_loaded(tmp_path: Path) -> None:
    nasty = '<script>alert(1)</script> {{ 7 * 7 }} & "it\'s"'
    largest = ih.evaluator(lambda query: query.target_outputs.amax(dim=1) - 0.5, name="largest")
    ih.audit(outputs(0, 2), outputs(1, 2), evaluators=[largest]).report(tmp_path / "a.html", model=nasty)
    page = (tmp_path / "a.html").read_text()
    assert nasty in shown(page).replace("  ", " ")
    assert "<script" not in page
    assert not re.search(r"https?:|//|@import|url\(|src=|href=", page)
    assert "default-src 'none'" in page
    assert "local/largest" in page


def test_an_output_that_cannot_be_written_is_found_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("computed")

    file = saved(tmp_path)
    monkeypatch.setattr(auditing, "audit", never)
    for option in ("--report", "--html", "--json"):
        done = run(file, option, tmp_path / "nowhere" / "a.html")
        assert isinstance(done.exception, UsageError)
        assert "there is no folder" in str(done.exception)


def test_the_scale_has_models_between_chance_and_certainty_or_says_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EMBEDDED["options"], "splits", 2)
    result = ih.audit(outputs(0, 2), outputs(1, 2), evaluators=QUICK)
    result.report(tmp_path / "a.html")
    text = shown((tmp_path / "a.html").read_text())
    small, heart = (float(re.search(rf"{name} (\d\.\d+)", text)[1]) for name in ("small model", "learnt by heart"))
    assert 0.5 < small < 0.7 < heart
    assert f"2 networks on {EMBEDDED['options']['part']} handwritten digits" in text

    def missing(kind: str, name: str) -> None:
        raise Unavailable("no digits here")

    monkeypatch.setattr(commands, "find", missing, raising=False)
    monkeypatch.setattr(scale, "reference_models", reference_models)
    result.report(tmp_path / "b.html")
    text = shown((tmp_path / "b.html").read_text())
    assert "There are no models to compare with: no digits here" in text
    assert "small model" not in text


def test_the_usual_audit_prints_on_one_sheet(tmp_path: Path) -> None:
    file = saved(tmp_path, rows=30)  # with few rows, too, all attacks are trained, and the page is as long as with many
    done = run(file, "--report", tmp_path / "a.pdf", "--fail-above", 0.6, evaluators=())
    if isinstance(done.exception, Unavailable):
        pytest.skip("no browser on this machine")
    pdf = (tmp_path / "a.pdf").read_bytes()
    assert pdf.count(b"/MediaBox") == 1
    assert b"/MediaBox [0 0 594" in pdf


def advised(target: dict[str, np.ndarray], other: dict[str, np.ndarray], limit: float | None, evaluators=QUICK) -> str:
    """Return the section "What to do" of the report of an audit, with `other` as the shadow model."""
    result = ih.audit(target, other, evaluators=evaluators).details
    text = shown(page(result, AuditSubject("m", "repeat", limit), ReferenceModels((), "There are none.")))
    return text.partition("What to do")[2].partition("All attacks")[0]


def of_labels(seed: int, members: float, others: float, rows: int = 1000) -> dict[str, np.ndarray]:
    """Return answers that are right on a share `members` of members and `others` of others, and equally sure."""
    rng = np.random.default_rng(seed)
    labels, member = rng.integers(0, CLASSES, 2 * rows), np.arange(2 * rows) < rows
    wrong = rng.random(2 * rows) >= np.where(member, members, others)
    predictions = (labels + wrong * rng.integers(1, CLASSES, 2 * rows)) % CLASSES
    sure = rng.uniform(0.7, 0.9, 2 * rows)
    shares = np.repeat((1 - sure)[:, None] / (CLASSES - 1), CLASSES, axis=1)
    shares[np.arange(2 * rows), predictions] = sure
    return {"probabilities": shares, "labels": labels, "member": member}


def test_advice_follows_from_what_predicted_classes_alone_give_away() -> None:
    """Predictions that are right on 95% of members and 62% of others give away (0.95 + 1 - 0.62) / 2 = 0.665."""
    classes = of_labels(0, 0.95, 0.62), of_labels(1, 0.95, 0.62)
    for limit, evaluators in ((0.6, QUICK), (None, QUICK), (0.6, ("confidence[per_class=false]",))):
        text = advised(*classes, limit, evaluators)
        assert re.search(
            r"To hide the probabilities does not help: the predicted classes alone give away 0\.6\d\d", text
        )
        assert "Give out predicted classes" not in text
    sure = outputs(0, 3, 1000), outputs(1, 3, 1000)
    for answers in sure:  # all predictions are right, and the model is surer of members
        answers["labels"] = answers["probabilities"].argmax(axis=1)
    text = advised(*sure, 0.6)
    assert "Give out predicted classes without probabilities: they give away 0.500" in text
    assert "altered copies of a record were not" in text
    between = outputs(0, 1.2, 1000), outputs(1, 1.2, 1000)
    text = advised(*between, 0.55, ("confidence[per_class=false]",))
    assert "does not help" in text or "which is not shown to be at most the threshold" in text
    unlabelled = [{name: sure_answers[name] for name in ("probabilities", "member")} for sure_answers in sure]
    assert "it is not known what predicted classes alone give away" in advised(*unlabelled, 0.6, ("entropy",))


def test_advice_for_what_is_not_shown_says_what_would_show_it() -> None:
    few = outputs(4, 0.5, 30), outputs(5, 0.5, 30)
    assert re.search(r"About \d+ tested records, half of them members, would settle it", advised(*few, 0.6))
    swapped = {**outputs(0, 2), "member": ~outputs(0, 2)["member"]}
    text = advised(swapped, outputs(1, 2), 0.6)
    assert "Mend what is named under the verdict" in text
    assert "would settle it" not in text
    assert "Passing holds for these attacks" in advised(outputs(2, 0, 1000), outputs(3, 0, 1000), 0.6)
