"""Tracks answer what notebooks ask; one that does not says so, and two that answer one question are named."""

from types import SimpleNamespace

import pytest

from imharness.components import registry
from imharness.components.registry import installed
from imharness.errors import PluginError, UsageError
from imharness.notebook.given import track_that
from imharness.tracks import Info, Planner, Query, Selection, Track, TrackReport


class Quiet(Track):
    """A track that answers nothing."""

    info = Info(id="acme/quiet", version="1")
    title = "Quiet"
    measures = "Nothing."
    steps = ()

    def plan(self, planner: Planner, selection: Selection) -> None:
        return None

    def report(self, query: Query) -> TrackReport:
        return TrackReport()


class Auditing(Quiet):
    """A second track that audits."""

    info = Info(id="acme/auditing", version="1")

    def audit(self, asked):
        raise AssertionError("nobody asks where two answer")


def test_the_one_track_that_answers_is_found() -> None:
    for question in ("audit", "audit_page", "audit_report"):
        assert track_that(question).info.id == "harness/membership"
    assert track_that("reconstruct").info.id == "harness/reconstruction"


@pytest.mark.parametrize(
    ("tracks", "wrong", "said"),
    [
        ([Quiet()], UsageError, "no installed track answers this: none has a method audit"),
        ([], PluginError, "tracks acme/auditing and harness/membership both have a method audit; uninstall one"),
    ],
)
def test_none_and_several_are_named(tracks: list, wrong: type, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tracks or [Auditing(), *installed().of_kind("track")]
    monkeypatch.setattr(registry, "installed", lambda: SimpleNamespace(of_kind=lambda kind: here))
    with pytest.raises(wrong, match=said):
        track_that("audit")


def test_a_track_that_does_not_answer_says_so() -> None:
    for ask in (
        Quiet().audit,
        Quiet().reconstruct,
        lambda found: Quiet().audit_page(found, "model"),
        lambda found: Quiet().audit_report(found, None),
    ):
        with pytest.raises(UsageError, match=r"track acme/quiet (audits no models|rebuilds no images)"):
            ask(None)
