"""Hostile inputs other than code: wheels, addresses, repositories, names, descriptions, messages and reports."""

from __future__ import annotations

import io
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest
import torch
from tests.submissions.test_reports import manifest

from imharness.errors import HarnessError, PluginError, UsageError
from imharness.reading.wheels import check_unpacked, check_wheel
from imharness_submissions import environment, installer
from imharness_submissions.ledger import Ledger
from imharness_submissions.manifest import Package
from imharness_submissions.owners import check_registered, look_alikes
from imharness_submissions.report import Checked, ClaimResult, Gain, GradientAudit, SubmissionReport, markdown
from imharness_submissions.sandbox.proxies import LONGEST, MOST_COMPONENTS, check_size
from imharness_submissions.sandbox.wire import Message, WireError, pack, unpack

METADATA = "Metadata-Version: 2.1\nName: strangers\nVersion: 1.0\n"
SHA = "0" * 64


def metadata_in(folder: Path, *names: str) -> Path:
    """Return a folder with metadata of the same package under several names."""
    for name in names:
        (folder / name).mkdir()
        (folder / name / ("METADATA" if name.endswith(".dist-info") else "PKG-INFO")).write_text(METADATA)
    return folder


def test_metadata_of_a_kind_that_nobody_checks(tmp_path: Path) -> None:
    """Unchecked egg-info metadata could be read in place of the checked ones, and contain terminal escapes."""
    with pytest.raises(UsageError, match=r"aaa\.egg-info"):
        check_unpacked(metadata_in(tmp_path, "aaa.egg-info", "strangers-1.0.dist-info"))


def test_two_sets_of_metadata(tmp_path: Path) -> None:
    """One set would be checked, and the other one shown."""
    folder = metadata_in(tmp_path, "strangers-1.0.dist-info", "strangers-1.0.0.dist-info")
    with pytest.raises(UsageError, match="2 sets of metadata"):
        environment._check(folder, Package(name="strangers", version="1.0", sha256=SHA))


def test_a_wheel_with_two_lists_of_names(tmp_path: Path) -> None:
    """One reader would see the harmless name of the directory, and another the name written beside the content."""
    path, packed = tmp_path / "strangers-1.0-py3-none-any.whl", io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("strangers-1.0.dist-info/METADATA", METADATA)
        file.writestr("strangers.py", "")
    content = packed.getvalue()
    path.write_bytes(content.replace(b"strangers.py", b"../../evi.py", 1))
    with pytest.raises(UsageError, match="is not a wheel: File name in directory"):
        check_wheel(path)


def test_an_address_that_drips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte arrives within the time limit, but the whole file never does."""

    class Dripping(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            time.sleep(0.02)
            return b"x"

        read = read1

    monkeypatch.setattr(urllib.request, "urlopen", lambda *arguments, **named: Dripping())
    monkeypatch.setattr(environment, "TIMEOUT_S", 0.05)
    package = Package(name="a", version="1.0", sha256=SHA, address="https://b.example/a-1.0-py3-none-any.whl")
    with pytest.raises(HarnessError, match="took longer"):
        environment._fetched(package, tmp_path)


def test_a_private_repository_of_the_maintainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository is cloned without the passwords that the maintainer's machine has stored."""
    lines = []

    def call(line: list[str], what: str, folder: Path) -> str:
        lines.append(line)
        raise HarnessError("stop")

    monkeypatch.setattr(installer, "_call", call)
    package = Package(name="a", version="1.0", repository="https://b.example/private", commit="0" * 40)
    with pytest.raises(HarnessError, match="stop"):
        environment._built(package, tmp_path, False)
    assert {"credential.helper=", "core.askPass=true"} <= set(lines[0])


def test_components_under_the_name_of_somebody_else() -> None:
    """The components would appear on the leaderboard before the components of their owner."""
    with pytest.raises(UsageError, match="owner 'rival', of which no entry is"):
        check_registered(manifest("stranger"), ["stranger/method", "rival/method"])
    check_registered(manifest("stranger"), ["stranger/method", "stranger/other"])


def test_the_name_of_the_submission_of_somebody_else(tmp_path: Path) -> None:
    """The submission of the other owner would be overwritten."""
    ledger, theirs = Ledger(tmp_path), manifest("rival", "rival@b.example")
    ledger.append("fine-defense", ("rival/method",), "added", "", manifest=theirs.model_dump(mode="json"))
    with pytest.raises(UsageError, match="there is a submission fine-defense"):
        list(look_alikes(manifest("stranger", "s@b.example"), ledger, "fine-defense"))
    assert list(look_alikes(theirs, ledger, "fine-defense")) == []


@pytest.mark.parametrize("components", [[{}] * (MOST_COMPONENTS + 1), [{"documentation": "x" * LONGEST}]])
def test_a_description_without_end(components: list[dict[str, str]]) -> None:
    """Every page of the site and every worker would have to read the description again."""
    with pytest.raises(PluginError, match=r"at most|more than"):
        check_size(components)


def test_bytes_that_are_neither_true_nor_false() -> None:
    """A truth value stored as byte 255 would count 255 times in a sum."""
    head, content = pack(Message("result", {}, {"abstained": torch.ones(4, dtype=torch.bool)}))
    blob = torch.frombuffer(bytearray(bytes(head)[12:] + bytes(content).replace(b"\1", b"\xff")), dtype=torch.uint8)
    with pytest.raises(WireError, match="neither true nor false"):
        unpack(blob)


def report(**facts: object) -> SubmissionReport:
    """Return a report with the given fields and fillers for all others."""
    fields = dict.fromkeys(("name", "manifest", "environment", "package", "isolation", "started", "profile"), "x")
    numbers = {"seconds": 0, "limit": None, "seed": 0, "suite_seed": 0, "import_s": 0}
    return SubmissionReport(**fields, **numbers, device="", versions={}, entries=(), **{"conformance": (), **facts})


def test_drowning_the_reasons() -> None:
    """The ledger's line begins with what the harness found, however many attempts the package reports."""
    gain = Gain(way="identity", attack="a", gain=0.5, higher=True)
    audits = (GradientAudit(component="d", metric="m", images=1, gains=(gain,), flags=("misleading gradients",)),)
    checks = tuple(Checked(component="d", check="c", status="failed", message="x" * 400) for _ in range(9))
    flags = report(attempts=["tried " + "x" * 300] * 50, conformance=checks, gradient_audits=audits).flags()
    assert flags[0] == "d: misleading gradients"
    assert flags[-1].startswith("tried")


def test_a_claim_with_a_tolerance_that_admits_all() -> None:
    """The report shows the tolerance beside the claim, so that a reader sees how little it says."""
    claim = ClaimResult(what="score", claimed=0.99, measured=0.1, tolerance=1e9, holds=True)
    assert "0.99 ± 1e+09" in markdown(report(claims=(claim,)))
