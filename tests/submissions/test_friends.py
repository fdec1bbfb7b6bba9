"""A judge, a metric or an attack, and a defense of its owner: no other's number moves until a person accepts it."""

from pathlib import Path

import pytest
from tests.submissions.conftest import PROFILE, MakeSubmission, unexamined
from tests.submissions.test_decide import SHOWN, invoke, notes
from tests.submissions.test_evidence import listed_by
from tests.submissions.test_honest import leaderboard_of
from tests.submissions.test_run import entry

BASELINES = PROFILE.replace('["none"]', '["none", "jpeg"]').replace('["ifgsm", "square"]', '["ifgsm"]')
OWN = ("harness/none", "harness/jpeg")


def worst(store: Path) -> dict[str, float | None]:
    """Return the number by which each entry is ranked."""
    table = next(table for table in leaderboard_of(store, "iqa").tables if table.id == "ranking")
    return {row.label: row.values["worst"].value for row in table.rows}


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of the baselines."""
    return listed_by(tmp_path_factory.mktemp("listed"), BASELINES, "--limit", 12)


@pytest.mark.parametrize(
    ("package", "kind", "friend"),
    [("reads_corners", "metric", "blind/signs-corners"), ("shuffles_pixels", "attack", "blind/sorts-pixels")],
)
def test_a_judge_and_its_friend_move_no_number_until_a_person_accepts_the_judge(
    submission: MakeSubmission,
    listed: Path,
    store: Path,
    tmp_path: Path,
    no_site: None,
    package: str,
    kind: str,
    friend: str,
) -> None:
    """Once the judge is accepted, although nobody read it, it changes numbers of others.

    The attack spares the defense of its owner, which gains on no defense by that. A metric judges no entry of its
    owner, so that the defense gains nothing by it.
    """
    profile, judge = listed.parent / "tiny.toml", f"blind/{package.replace('_', '-')}"
    options = ("--store", store, "--site", tmp_path / "site")
    where = (*options, "--profile", profile, "--device", "cpu", "--limit", "12", "--workers", "0")
    before = worst(store)
    strengths = "strengths = { weak = {}, medium = {}, strong = {} }\n" if kind == "attack" else ""
    folder = submission(f"blind/{package}", entry(judge, kind) + strengths + entry(friend))
    with unexamined():
        assert invoke("submissions", "run", folder, *where).exit_code == 0
    scores_before = worst(store)
    assert {label: scores_before[label] for label in OWN} == before
    assert f"{SHOWN}: {judge} ({kind})" in notes(leaderboard_of(store, "iqa"))
    done = invoke("submissions", "decide", folder.name, "accepted", "--reason", "nobody read it", *options)
    assert done.exit_code == 0, done.output
    scores = worst(store)
    assert {label: scores[label] for label in OWN} != before
    gained = scores[friend] / scores["harness/none"] < 0.95 * scores_before[friend] / scores_before["harness/none"]
    assert gained == (kind == "attack")
