"""Canaries, tasks whose numbers are known, tell whether this machine computes them; new numbers can be kept."""

import json

import pytest
from click.testing import CliRunner

from imharness.cli import cli
from imharness_submissions import reproducing


def test_the_known_numbers_are_those_of_this_version() -> None:
    done = CliRunner().invoke(cli, ["reproduce", "--canaries"])
    assert done.exit_code == 0, done.output
    assert done.output.count("pass\n") == len(reproducing.canaries()) == 3


def test_one_that_drifts_raises_the_alarm_and_its_new_numbers_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    canary = reproducing.canaries()[1]
    first, *others = canary.values
    for values, difference in (((first + 0.004, *others), "0.004"), (tuple(others), "inf")):
        drifted = canary.model_copy(update={"values": values})
        monkeypatch.setattr(reproducing, "canaries", lambda drifted=drifted: [drifted])
        done = CliRunner().invoke(cli, ["reproduce", "--canaries"])
        assert done.exit_code == 1
        assert "ALARM: drifted" in done.output
        assert difference in done.output
    printed = CliRunner().invoke(cli, ["reproduce", "--canaries", "--json"])
    assert printed.exit_code == 1
    assert json.loads(printed.stdout)[0]["values"] == pytest.approx(canary.values, abs=canary.tolerance)
