"""A report and a line of the ledger exist whatever a package does, and hold nothing that harms their readers."""

import json
from pathlib import Path

import pytest
from tests.submissions.conftest import METADATA, MakeSubmission
from tests.submissions.test_run import entry, silent

from imharness.errors import HarnessError, UsageError
from imharness.planning.profiles import load_profile
from imharness.results.store import Store
from imharness_submissions.commands.submissions import _append
from imharness_submissions.ledger import Ledger
from imharness_submissions.manifest import Submission
from imharness_submissions.owners import check_reserved, look_alikes
from imharness_submissions.report import Gain, GradientAudit, SubmissionReport, markdown
from imharness_submissions.run import Run
from imharness_submissions.running import run_submission


def test_a_report_and_a_line_exist_whatever_a_package_does(
    submission: MakeSubmission, tmp_path: Path, profile: Path
) -> None:
    root, names = tmp_path / "store", ("half_characters", "size_zero")
    first, second = (f"../submissions/hostile/{name}" for name in names)
    folder = submission(first, "".join(entry(f"evil/{name.replace('_', '-')}") for name in names), second)
    report = run_submission(Run(folder, Store(root), load_profile(str(profile)), limit=2), silent)
    flags = " ".join(" ".join(report.flags()).split())
    for expected_text in ("half a character [2J and an escape", "evil/size-zero:"):
        assert expected_text in flags, flags
    stored = json.loads((root / "submissions" / f"{folder.name}.json").read_text())
    assert SubmissionReport.model_validate(stored["report"]).seal == report.expected_seal()
    lines = Ledger(root).lines()
    assert lines[-1].decision == "flagged"
    assert lines[-1].report == report.seal
    for text in (markdown(report), *report.flags(), *(line.reason for line in lines)):
        assert not {"\x1b", "\u2028", "\ud800"} & set(text)
    assert "\\u001b" not in json.dumps(stored)


def test_a_package_that_cannot_be_opened_is_refused_in_the_ledger(
    submission: MakeSubmission, tmp_path: Path, profile: Path
) -> None:
    root = tmp_path / "store"
    folder = submission("../submissions/hostile/no_number", entry("evil/no-number"))
    with pytest.raises(HarnessError, match=r"Out of range float values are not JSON compliant.*; use finite numbers"):
        Run(folder, Store(root), load_profile(str(profile)), limit=2)
    (line,) = Ledger(root).lines()
    assert (line.decision, line.ids, line.name) == ("refused", (), "no-number")
    assert "evil/no-number: its parameters have no digest" in line.reason


def manifest(owner: str, contact: str = "a@b.example", package: str = "median") -> Submission:
    return Submission.model_validate(
        {
            "format": 1,
            "summary": "A defense for tests.",
            "authors": ["A stranger"],
            "contact": contact,
            "licence": "MIT",
            "extra_training_data": "none",
            "package": {"name": package, "version": "1.0", "sha256": "0" * 64},
            "entries": [{"kind": "defense", "id": f"{owner}/median"}],
        }
    )


@pytest.mark.parametrize("owner", ["harness", "hamess", "harn-ess", "harness-", "h4rness", "har_ness", "harne5s"])
def test_the_name_of_this_project_is_reserved(owner: str) -> None:
    with pytest.raises(UsageError, match="is reserved"):
        check_reserved(manifest(owner))


@pytest.mark.parametrize("owner", ["harvest", "hardware", "witness", "acme"])
def test_other_words_are_free(owner: str) -> None:
    check_reserved(manifest(owner))


@pytest.mark.parametrize("owner", ["Harness", "h\u0430rness", "harness\u200b", "\uff48arness"])
def test_owners_of_ids_are_ascii_and_small(owner: str) -> None:
    with pytest.raises(ValueError, match=r"entries\.0\.id|one line of text"):
        manifest(owner)


@pytest.mark.parametrize("package", ["image-privacy-harness", "Image_Privacy.Harness", "image-privacy-hamess"])
def test_a_package_is_not_called_like_this_project(package: str) -> None:
    with pytest.raises(UsageError, match="this project"):
        check_reserved(manifest("stranger", package=package))


def test_an_owner_belongs_to_whoever_has_it_now(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    first = manifest("good", "first@b.example")
    ledger.append("median", ("good/median",), "added", "x", manifest=first.model_dump(mode="json"))
    assert list(look_alikes(manifest("good", "First@B.example"), ledger)) == []
    assert list(look_alikes(manifest("other"), ledger)) == []
    with pytest.raises(UsageError, match=r"belongs to the submission median, with another contact$"):
        list(look_alikes(manifest("good"), ledger))
    assert list(look_alikes(manifest("g00d"), ledger)) == [
        "the owner 'g00d' looks like 'good' of the submission median"
    ]
    assert list(look_alikes(manifest("go-od"), ledger)) != []
    ledger.append("alike", ("g00d/median",), "added", "x", manifest=manifest("g00d").model_dump(mode="json"))
    assert list(look_alikes(manifest("good", "first@b.example"), ledger)) == [], "it was there before"
    ledger.append("alike", ("g00d/median",), "withdrawn", "x")
    ledger.append("median", ("good/median",), "withdrawn", "x")
    assert list(look_alikes(manifest("good"), ledger, "median")) == [], "a name that nobody has is free"
    ledger.append("theirs", ("good/median",), "added", "x", manifest=manifest("good").model_dump(mode="json"))
    with pytest.raises(UsageError, match="belongs to the submission theirs"):
        _append(ledger, "median", "added", "it comes back")


def test_the_address_of_a_package_shows_a_person_whose_owner_it_is(tmp_path: Path) -> None:
    """Anybody can write a contact, and a wheel of the index may have any name."""
    ledger, squatter = Ledger(tmp_path), manifest("good", "first@b.example")
    ledger.append("median", ("good/median",), "added", "x", manifest=squatter.model_dump(mode="json"))
    packages = {
        "https://github.com/Good/median": "; but this package comes from the account 'good': look at both",
        "https://github.com/evil/good": "with another contact$",
        "https://evil.example/good/median": "with another contact$",
    }
    for repository, line in packages.items():
        package = {"name": "median", "version": "1.0", "repository": repository, "commit": "0" * 40}
        facts = {**manifest("good").model_dump(mode="json"), "package": package}
        with pytest.raises(UsageError, match=line):
            list(look_alikes(Submission.model_validate(facts), ledger))


def test_the_entries_of_a_manifest_have_one_owner() -> None:
    """Otherwise one manifest takes as many owners' names as it has entries, and others have to do without them."""
    facts = manifest("good").model_dump(mode="json")
    more = [{"kind": "defense", "id": f"{owner}/median"} for owner in ("great", "good", "grand")]
    with pytest.raises(ValueError, match="the ids have 3 owners, good and grand; a submission has one"):
        Submission.model_validate({**facts, "entries": more})
    assert Submission.model_validate({**facts, "entries": more[1:2]}).owner == "good"


def test_metadata_that_are_no_text_are_refused_and_stand_in_the_ledger(
    submission: MakeSubmission, tmp_path: Path, profile: Path
) -> None:
    from tests.submissions.test_wheels import packed

    folder = submission("honest/median", entry("good/median"))
    wheel = packed(tmp_path, metadata=METADATA.format("median").encode() + b"Summary: \xff\n")
    import hashlib
    import re

    text = (folder / "submission.toml").read_text()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "submission.toml").write_text(re.sub(r'sha256 = "\w+"', f'sha256 = "{digest}"', text))
    with pytest.raises(UsageError, match="METADATA is not UTF-8"):
        Run(folder, Store(tmp_path / "store"), load_profile(str(profile)), limit=2)
    (line,) = Ledger(tmp_path / "store").lines()
    assert line.decision == "refused"
    assert "METADATA is not UTF-8" in line.reason


def test_a_gain_is_compared_with_the_gradient_that_attacks_read() -> None:
    ways = (("identity backward (BPDA)", 0.1, False), ("queries alone", 0.4, True))
    gains = tuple(Gain(way=way, attack="a/b", gain=gain, higher=higher) for way, gain, higher in ways)
    audit = GradientAudit(component="evil/steps", metric="a/m", images=12, gains=gains)
    words = dict.fromkeys(
        ("name", "manifest", "environment", "package", "isolation", "started", "profile", "device"), "x"
    )
    numbers = {"seconds": 1.0, "limit": None, "seed": 0, "suite_seed": 0, "import_s": 0.0}
    report = SubmissionReport.model_validate(
        {**words, **numbers, "versions": {}, "entries": (), "conformance": (), "gradient_audits": (audit,)}
    )
    assert "| queries alone (more than identity backward (BPDA)) | a/b | 0.4000 |" in markdown(report)
