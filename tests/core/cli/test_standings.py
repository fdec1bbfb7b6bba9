"""The last screen of a run: the rankings of each track, in lines that fit, with names that readers know."""

import io
import re

import pytest
from tests.core.exports.leaderboards import sample_leaderboard
from tests.leaderboard.contested import FLIP, JPEG

from imharness.cli import console
from imharness.cli.run import _report
from imharness.cli.standings import FIRST, NARROW, WIDE, heading, legend, screen_width, track_lines
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.tables import Value
from imharness.running.sweep import RunResult


def two_rankings() -> Leaderboard:
    """A track with a second ranking, whose claim and table differ from the first one's."""
    first = sample_leaderboard()
    ranking = first.rankings[0]
    table = next(table for table in first.tables if table.id == ranking.table)
    other = table.model_copy(update={"id": "other", "title": "Another adversary"})
    second = ranking.model_copy(update={"table": "other", "claim": f"{FLIP} wins here.", "winner": FLIP})
    return first.model_copy(update={"tables": (*first.tables, other), "rankings": (ranking, second)})


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("whole", [False, True])
def test_lines_fit_and_name_components_as_readers_know_them(width: int, whole: bool) -> None:
    lines = [line.text for line in track_lines(two_rankings(), width, whole=whole)]
    assert max(map(len, lines)) <= width
    assert not re.search(r"harness/|\w\[\w+=", "\n".join(lines))
    assert any("JPEG" in line for line in lines)


def test_every_ranking_has_its_headline_and_the_winner_is_named_first() -> None:
    lines = [line.text for line in track_lines(two_rankings(), NARROW)]
    text = " ".join(" ".join(lines).split())
    assert "Another adversary" in text
    assert "WINNER Flip wins here." in text
    styles = {line.text.strip(): line.style for line in track_lines(two_rankings(), NARROW)}
    assert styles["WINNER Flip wins here."] == "bold green"


def test_a_short_form_has_few_eligible_rows_the_best_ineligible_one_and_the_control() -> None:
    leaderboard = sample_leaderboard()
    ranking = leaderboard.rankings[0]
    rows = [line.text for line in track_lines(leaderboard, NARROW) if "●" in line.text]
    eligible = sum(position.eligible for position in ranking.places.values())
    # A row of an entry that cannot win begins with an x.
    barred = [row for row in rows if row.strip().startswith("x")]
    assert len(rows) == min(eligible, FIRST) + len(barred) + 1
    assert len(barred) == 1
    assert re.search(r"costs too much|flagged|incomplete", barred[0])
    assert "No defense" in rows[-1] or "undefended" in rows[-1]  # the control


@pytest.mark.parametrize("whole", [False, True])
def test_two_places_that_the_numbers_do_not_show_are_explained_below_the_rows(whole: bool) -> None:
    leaderboard = sample_leaderboard()
    table = leaderboard.tables[0]
    assert "reverse order" not in " ".join(line.text for line in track_lines(leaderboard, WIDE, whole=whole))
    first, second, *rest = table.rows
    # The second row gets the better, smaller number and keeps the second place.
    values = {**second.values, "worst": Value(value=first.values["worst"].number_or(0) - 0.1, n=9)}
    turned = table.model_copy(update={"rows": (first, second.model_copy(update={"values": values}), *rest)})
    leaderboard = leaderboard.model_copy(update={"tables": (turned, *leaderboard.tables[1:])})
    text = " ".join(line.text.strip() for line in track_lines(leaderboard, WIDE, whole=whole))
    assert "Places put JPEG before Flip by the photographs that two entries share; their numbers," in text


def test_a_pipe_has_the_same_lines_as_a_terminal_without_colour(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    def printed(*, terminal: bool) -> str:
        out = console.Console(highlight=False, width=NARROW, force_terminal=terminal, record=True, file=io.StringIO())
        monkeypatch.setattr(console, "out", out)
        _report([], [two_rankings()], RunResult(), tmp_path, "store", 62.0, False)
        return out.export_text()

    assert printed(terminal=True) == printed(terminal=False)


def test_the_last_lines_are_totals_and_commands(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    _report([], [sample_leaderboard()], RunResult(), tmp_path / "a b", "other store", 62.0, False)
    lines = capsys.readouterr().out.splitlines()
    meaning = [line.text for line in legend([sample_leaderboard()], WIDE)]
    start = lines.index(meaning[0])
    assert lines[start + 1] == meaning[1]
    assert lines[start + 2].startswith(" 0 tasks in 1:02, none failed.")
    commands = [line[6:].split("  ")[0].strip() for line in lines[start + 3 :]]
    assert commands[0] == f"harness site serve --site '{tmp_path / 'a b'}'"
    assert (
        commands[1]
        == f"harness results rank --track {sample_leaderboard().track.partition('/')[2]} --store 'other store'"
    )
    assert commands[-1] == "harness plugins new defense acme/mine"


def test_the_legend_names_what_entries_are_compared_with() -> None:
    leaderboard = two_rankings()
    first, second = leaderboard.rankings
    leaderboard = leaderboard.model_copy(
        update={"rankings": (second.model_copy(update={"baseline_name": "L2"}), first)}
    )
    texts = [line.text for line in legend([leaderboard], NARROW)]
    assert "│ no defense, L2  x:" in texts[0]
    assert "better than no defense or L2;" in texts[1]
    assert max(map(len, texts)) <= NARROW
    assert len(texts) == 2
    assert not list(legend([leaderboard.model_copy(update={"rankings": ()})], NARROW))


def test_the_head_says_which_tracks_have_demo_data() -> None:
    demo = sample_leaderboard()
    real = demo.model_copy(update={"title": "Real", "rankings": (demo.rankings[0].model_copy(update={"proxies": ()}),)})
    assert next(heading([demo], NARROW)).text.endswith("demo data: try it, do not cite")
    assert next(line.text for line in heading([real], NARROW)) == "What this run found"
    assert f"demo data in {demo.title}: try it, do not cite" == [line.text for line in heading([demo, real], NARROW)][1]


def test_a_screen_is_between_80_and_118_characters_wide() -> None:
    assert [screen_width(width) for width in (20, 100, 200)] == [NARROW, 100, WIDE]
    assert JPEG in sample_leaderboard().rankings[0].places
