"""Comparisons of a published table with a leaderboard, for made-up numbers whose answer is known.

In a pointer such as acme/x[*], the star stands for any further parameters.
"""

from __future__ import annotations

import json

import pytest

from imharness.documents.entries import Entry
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.papers.comparison import _grid, _row_means, compare
from imharness.papers.facts import comparison_facts, counts
from imharness.papers.order import order_of
from imharness.papers.pointers import extra, match
from imharness.papers.published import PublishedTable, find_table, published_tables
from imharness.papers.verdicts import NOT_RUN, OTHER, SAME

NAMES = tuple(f"e{i}" for i in range(8))  # the entries, and below their printed numbers
PRINTED = tuple(10.0 * (i + 1) for i in range(8))


def published(**changes) -> PublishedTable:
    """Return a published table of eight entries with one number each: 10, 20, ... 80."""
    facts = {
        "name": "1",
        "paper": "a2020",
        "table": "1",
        "track": "acme/track",
        "title": "t",
        "setting": "s",
        "data": ["acme/set"],
        "profiles": ["paper"],
        "columns": [{"key": "d", "label": "D", "ours": "main:d", "better": "lower"}],
        "rows": [
            {"label": name, "ours": f"acme/{name}[*]", "values": f"{value:.1f}"}
            for name, value in zip(NAMES, PRINTED, strict=True)
        ],
    }
    return PublishedTable.model_validate(facts | changes)


def main_table(ours: dict[str, Value], id: str = "main") -> Table:
    """Return a table of ours with one column, d, from label -> number."""
    column = ColumnSpec(key="d", label="D %", description="")
    rows = tuple(Row(label=label, values={"d": value}) for label, value in ours.items())
    return Table(id=id, title="", caption="", entry="defense", columns=(column,), rows=rows)


def sample_leaderboard(*tables: Table, **changes) -> Leaderboard:
    facts = {
        "track": "acme/track",
        "title": "",
        "measures": "",
        "profile": "paper",
        "seed": 0,
        "limit": None,
        "command": "",
        "finished": "",
        "missing": (),
        "tasks_done": 1,
        "tasks_failed": 0,
        "tasks_missing": 0,
        "tables": tables,
        "versions": {},
        "sources": "",
        "entries": (Entry(kind="dataset", id="acme/set", label="acme/set[size=9]", version="1"),),
    }
    return Leaderboard(**(facts | changes))


def numbers(values, width: float | None = 1.0, names=NAMES) -> dict[str, Value]:
    """Return label -> number of ours with an interval of `width` to either side, or without one."""
    ends = [(None, None) if width is None else (v - width, v + width) for v in values]
    return {
        f"acme/{name}": Value(value=value, low=low, high=high)
        for name, value, (low, high) in zip(names, values, ends, strict=True)
    }


def test_in_the_same_setting_equal_numbers_agree():
    comparison = compare(published(), sample_leaderboard(main_table(numbers(PRINTED))))
    (series,) = comparison.series
    assert {cell.verdict for cell in series.cells} == {"agrees"}
    assert (series.verdict, series.says, comparison.verdict, comparison.differs) == (SAME, "8 of 8 agree", SAME, ())
    assert [cell.difference for cell in series.cells] == [0.0] * 8


def test_in_the_same_setting_a_number_outside_the_interval_disagrees():
    off = [value + (3.0 if i == 2 else 0.0) for i, value in enumerate(PRINTED)]
    (series,) = compare(published(), sample_leaderboard(main_table(numbers(off)))).series
    assert [cell.entry for cell in series.with_verdict("disagrees")] == ["e2"]
    assert series.says == "7 of 8 agree"


@pytest.mark.parametrize(("ours", "verdict"), [(10.04, "agrees"), (10.06, "disagrees")])
def test_without_an_interval_rounding_alone_may_differ(ours, verdict):
    (series,) = compare(published(), sample_leaderboard(main_table(numbers([ours, *PRINTED[1:]], width=None)))).series
    assert series.cells[0].verdict == verdict


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"profile": "embedded"}, "profile embedded, not paper"),
        ({"limit": 3}, "the first 3 images only"),
        ({"secret": "a" * 64}, "a secret split"),
        ({"waiting": 2}, "a run that is not finished"),
        ({"entries": ()}, "data of no known set, not acme/set"),
    ],
)
def test_in_another_setting_only_order_is_compared_and_the_reason_is_named(changes, reason):
    comparison = compare(published(), sample_leaderboard(main_table(numbers([3 * v for v in PRINTED])), **changes))
    assert (comparison.verdict, comparison.differs) == (OTHER, (reason,))
    assert {cell.verdict for cell in comparison.series[0].cells} == {"another setting"}
    assert (comparison.series[0].order.tau, comparison.series[0].says) == (pytest.approx(1), "same order")


@pytest.mark.parametrize("counted", [{"n": 4}, {"n": 400, "clusters": 4}])
@pytest.mark.parametrize("off", [0.0, 50.0])
def test_of_fewer_than_five_independent_units_nothing_can_be_told(counted, off):
    few = {name: value.model_copy(update=counted) for name, value in numbers([v + off for v in PRINTED]).items()}
    comparison = compare(published(), sample_leaderboard(main_table(few)))
    assert (comparison.series[0].says, counts(comparison)) == ("8 undecided", "same setting: 8 numbers undecided")
    enough = {name: value.model_copy(update={"n": 5, "clusters": 5}) for name, value in few.items()}
    assert (
        compare(published(), sample_leaderboard(main_table(enough))).series[0].says == f"{0 if off else 8} of 8 agree"
    )


def test_a_number_of_a_single_split_agrees_where_a_further_split_of_ours_would_lie():
    ours = {name: value.model_copy(update={"n": 8}) for name, value in numbers([v + 2.0 for v in PRINTED]).items()}
    assert compare(published(), sample_leaderboard(main_table(ours))).series[0].says == "0 of 8 agree"
    (series,) = compare(published(once=True), sample_leaderboard(main_table(ours))).series
    assert (series.says, series.cells[0].within) == ("8 of 8 agree", (9.0, 15.0))
    far = {name: value.model_copy(update={"n": 8}) for name, value in numbers([v + 3.1 for v in PRINTED]).items()}
    assert compare(published(once=True), sample_leaderboard(main_table(far))).series[0].says == "0 of 8 agree"


def test_an_interval_wider_than_the_published_numbers_are_apart_is_no_agreement():
    assert compare(published(), sample_leaderboard(main_table(numbers(PRINTED, 34.9)))).series[0].says == "8 of 8 agree"
    ours = numbers(PRINTED, 36.0)
    ours["acme/e0"] = Value(value=200.0, low=100.0, high=300.0)
    ours["acme/e1"] = Value(value=20.0, low=19.0, high=21.0)
    comparison = compare(published(), sample_leaderboard(main_table(ours)))
    assert [cell.verdict for cell in comparison.series[0].cells] == ["disagrees", "agrees", *["undecided"] * 6]
    assert counts(comparison) == "same setting: 1 of 2 numbers agree, 6 undecided"


SET_UP = {"options": {"splits": 5, "of": {"acme/set": {"epochs": 9}}}, "parameters": {"acme/e1": {"size": 3}}}


@pytest.mark.parametrize(
    ("ours", "differences"),
    [
        (SET_UP, ()),
        (
            {"options": {}, "parameters": {"acme/e2": {"a": [1], "b": "x"}}},
            (
                "options of acme/set epochs not set, not 9",
                "options splits not set, not 5",
                "parameters acme/e1 size not set, not 3",
                "2 more options",
            ),
        ),
        ({**SET_UP, "options": {**SET_UP["options"], "splits": 1}}, ("options splits 1, not 5",)),
        ({**SET_UP, "options": {"splits": 5}}, ("options of acme/set epochs not set, not 9",)),
        (
            {**SET_UP, "parameters": {"acme/e1": {"size": 3, "steps": 2}}},
            ("parameters acme/e1 steps 2, not its default",),
        ),
    ],
)
def test_a_profile_of_the_same_name_with_other_options_is_another_setting(ours, differences):
    comparison = compare(
        published(set_up={"paper": SET_UP}), sample_leaderboard(main_table(numbers(PRINTED)), set_up=ours)
    )
    assert (comparison.differs, comparison.verdict) == (differences, OTHER if differences else SAME)


@pytest.mark.parametrize(
    ("labels", "reasons"),
    [
        (("acme/a[k=1]", "acme/a[k=2]", "acme/b[training=acme/x[r=2]]", "acme/psnr"), ()),
        (("acme/a",), ("without 1 of the 2 metrics: acme/b",)),
        (("acme/a", "acme/b", "acme/c"), ("with metrics that the paper lacks: acme/c",)),
    ],
)
def test_a_mean_over_other_components_is_of_another_setting(labels, reasons):
    over, besides = {"metric": ["acme/a[*]", "acme/b[*]"]}, {"metric": ["acme/psnr"]}
    used = tuple(Entry(kind="metric", id=label, label=label, version="1") for label in labels)
    leaderboard = sample_leaderboard(main_table(numbers(PRINTED)))
    leaderboard = leaderboard.model_copy(update={"entries": (*leaderboard.entries, *used)})
    comparison = compare(published(over=over, besides=besides), leaderboard)
    assert (comparison.differs, comparison.verdict) == (reasons, OTHER if reasons else SAME)
    rows = [{"label": n, "ours": f"acme/{n}[*]", "values": "1", "over": over} for n in NAMES]
    assert compare(published(rows=rows, besides=besides), leaderboard).differs == reasons


def test_what_the_authors_code_computes_otherwise_is_of_another_setting_and_says_where():
    leaderboard = sample_leaderboard(main_table(numbers(PRINTED)))
    rows = [
        {"label": n, "ours": f"acme/{n}[*]", "values": "10", "otherwise": "f.py crops." if n == "e0" else ""}
        for n in NAMES
    ]
    comparison = compare(published(rows=rows), leaderboard)
    assert [cell.verdict for cell in comparison.series[0].cells][:2] == [OTHER, "disagrees"]
    assert comparison.otherwise == ("e0: f.py crops.",)
    columns = [{"key": "d", "label": "D", "ours": "main:d", "otherwise": "f.py has no range."}]
    assert compare(published(columns=columns), leaderboard).verdict == OTHER
    by_pointer = compare(published(otherwise={"acme/e1[*]": "f.py flips.", "acme/e2[*]": "f.py flips."}), leaderboard)
    assert [cell.verdict for cell in by_pointer.series[0].cells][:4] == ["agrees", OTHER, OTHER, "agrees"]
    assert by_pointer.otherwise == ("acme/e1; acme/e2: f.py flips.",)
    (cell,) = [c for c in comparison_facts(by_pointer)["series"][0]["cells"] if c["entry"] == "e2"]
    assert cell["computed_otherwise"] == ["f.py flips."]


def test_a_mean_over_what_the_authors_code_computes_otherwise_is_of_another_setting():
    over = {"metric": ["acme/a[*]", "acme/b[*]"]}
    used = tuple(Entry(kind="metric", id=label, label=label, version="1") for label in ("acme/a", "acme/b"))
    leaderboard = sample_leaderboard(main_table(numbers(PRINTED)))
    leaderboard = leaderboard.model_copy(update={"entries": (*leaderboard.entries, *used)})
    assert compare(published(over=over, otherwise={"acme/c[*]": "f.py"}), leaderboard).verdict == SAME
    comparison = compare(published(over=over, otherwise={"acme/b[*]": "f.py"}), leaderboard)
    assert (comparison.verdict, comparison.otherwise) == (OTHER, ("acme/b: f.py",))
    assert compare(published(over=over, otherwise={"acme/b[*]": "f.py"}), None).otherwise == ("acme/b: f.py",)


def test_a_data_set_that_enters_no_number_is_no_difference():
    leaderboard = sample_leaderboard(main_table(numbers(PRINTED)))
    more = leaderboard.entries[0].model_copy(update={"label": "acme/more[size=9]"})
    both = leaderboard.model_copy(update={"entries": (*leaderboard.entries, more)})
    assert compare(published(), both).differs == ("data acme/more, acme/set, not acme/set",)
    beside = published(besides={"dataset": ["acme/more"]})
    assert compare(beside, both).differs == compare(beside, leaderboard).differs == ()
    alone = leaderboard.model_copy(update={"entries": (more,)})
    assert compare(beside, alone).differs == ("data acme/more, not acme/set",)


def test_numbers_against_a_proxy_are_not_those_against_people():
    table = main_table(numbers(PRINTED))
    spec = table.columns[0].model_copy(update={"description": "Agreement with a classifier (proxy, not people)."})
    comparison = compare(published(), sample_leaderboard(table.model_copy(update={"columns": (spec,)})))
    assert (comparison.verdict, comparison.entries_differ) == (OTHER, ("ours is of a proxy, not of people",))


def test_an_entry_with_other_settings_is_of_another_setting_unless_the_paper_chose_them():
    ours = numbers(PRINTED)
    ours["acme/e0[size=3]"] = ours.pop("acme/e0")
    assert compare(published(), sample_leaderboard(main_table(ours))).series[0].cells[0].verdict == "another setting"
    assert compare(published(chosen=True), sample_leaderboard(main_table(ours))).series[0].cells[0].verdict == "agrees"
    ours["acme/e0[backbone=embedded]"] = ours.pop("acme/e0[size=3]")
    comparison = compare(published(chosen=True), sample_leaderboard(main_table(ours)))
    assert comparison.series[0].cells[0].verdict == "another setting"
    assert comparison.entries_differ == ("acme/e0 has backbone=embedded, a stand-in network",)


def test_a_reversed_order_has_tau_minus_one():
    comparison = compare(published(), sample_leaderboard(main_table(numbers(PRINTED[::-1])), profile="embedded"))
    order = comparison.series[0].order
    assert (order.tau, order.says, order.entries) == (pytest.approx(-1), "reversed", NAMES)
    assert counts(comparison) == "another setting: reversed 1"


def test_unrelated_orders_cannot_tell_and_equal_numbers_have_a_reason():
    mixed = [30.0, 10.0, 40.0, 20.0, 70.0, 50.0, 80.0, 60.0][::-1]
    assert order_of(NAMES, PRINTED, [1, 8, 2, 7, 3, 6, 4, 5]).says == "undecided"
    assert order_of(NAMES, PRINTED, mixed).tau < 0
    constant = order_of(NAMES, PRINTED, [1.0] * 8)
    assert (constant.tau, constant.says, constant.reason) == (None, "undecided", "one of the vectors is constant")


def test_p_of_few_entries_counts_all_orders():
    assert order_of(NAMES[:3], (1, 2, 3), (1, 2, 3)).p == pytest.approx(2 / 6)
    assert order_of(NAMES[:5], (1, 2, 3, 4, 5), (5, 4, 3, 2, 1)).p == pytest.approx(2 / 120)
    tied = order_of(NAMES[:4], (1, 2, 3, 4), (1, 1, 2, 2))
    assert tied.p == pytest.approx(8 / 24)  # of 24 orders four are 1 1 2 2 and four are 2 2 1 1
    assert (tied.says, order_of(NAMES[:5], range(5), range(5)).says) == ("too few entries", "same order")
    assert (tied.low, order_of(NAMES[:6], range(6), range(6)).low) == (None, pytest.approx(1))


def test_the_interval_holds_the_true_tau_at_its_level():
    """Normal pairs of correlation r have Kendall's tau 2 / pi arcsin r; 88 % of intervals of 20 entries contain it."""
    import numpy as np

    rng, r, inside = np.random.default_rng(0), 0.6, 0
    for _ in range(100):
        x, noise = rng.normal(size=(2, 20))
        estimate = order_of([str(i) for i in range(20)], x, r * x + np.sqrt(1 - r * r) * noise)
        inside += estimate.low <= 2 / np.pi * np.arcsin(r) <= estimate.high
    assert inside >= 88


def test_the_interval_holds_where_resamples_may_be_all_tied():
    """Eight entries get 0 or 1, and a fifth of them 1 on average; a resample in which all are equal has no tau-b.

    If such resamples were left out, the interval would contain the tau of the population in .66 of studies only.
    """
    import numpy as np

    def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
        x, noise = rng.normal(size=(2, n))
        return x, (0.6 * x + 0.8 * noise > 0.8).astype(float)

    rng, inside, studies = np.random.default_rng(0), 0, 0
    truth = order_of([str(i) for i in range(2000)], *drawn(2000)).tau
    for _ in range(150):
        x, y = drawn(8)
        if len(set(y.tolist())) == 2:
            estimate = order_of(NAMES, x, y)
            inside, studies = inside + (estimate.low <= truth <= estimate.high), studies + 1
    assert inside >= 0.93 * studies > 100


def test_missing_entries_are_named_with_the_command_that_runs_them():
    ours = numbers(PRINTED)
    del ours["acme/e3"]
    ours["acme/e5"] = Value(missing="it failed")
    comparison = compare(published(), sample_leaderboard(main_table(ours)))
    assert comparison.not_run == {"acme/e3[*] is not there": ("e3",), "it failed": ("e5",)}
    assert comparison.series[0].order.entries == tuple(n for n in NAMES if n not in ("e3", "e5"))
    assert comparison.runs.commands == ("harness run --profile paper --track acme/track --dataset acme/set",)


@pytest.mark.parametrize(
    ("leaderboard", "why"),
    [(None, "no tables of acme/track"), (sample_leaderboard(main_table({}, "x")), "no table 'main'")],
)
def test_without_a_table_nothing_is_run(leaderboard, why):
    comparison = compare(published(), leaderboard)
    assert (comparison.verdict, comparison.series[0].verdict, list(comparison.not_run)) == (NOT_RUN, NOT_RUN, [why])


def test_two_rows_that_fit_alike_are_named_and_not_guessed():
    ours = numbers(PRINTED) | {"acme/e0[a=1]": Value(value=1.0), "acme/e0[b=2]": Value(value=2.0)}
    del ours["acme/e0"]
    comparison = compare(published(), sample_leaderboard(main_table(ours)))
    assert list(comparison.not_run) == ["acme/e0[*] may be acme/e0[a=1] or acme/e0[b=2]"]


def test_rows_of_several_data_sets_are_put_in_order_apart():
    rows = [
        {"label": f"{name} {data}", "ours": f"acme/{name}", "data": [f"acme/{data}"], "values": str(i)}
        for data in ("set", "other")
        for i, name in enumerate(NAMES[:3])
    ]
    comparison = compare(
        published(rows=rows, data=[]), sample_leaderboard(main_table(numbers([0.0, 1.0, 2.0], names=NAMES[:3])))
    )
    assert [(s.label, s.verdict, s.order.n) for s in comparison.series] == [("D, set", SAME, 3), ("D, other", OTHER, 3)]


def test_a_transposed_table_and_one_whose_columns_are_entries():
    columns = [{"key": n, "label": n, "ours": f"main:acme/{n}", "scale": 0.01} for n in NAMES]
    rows = [{"label": "D of all", "ours": "d", "values": " ".join(str(v) for v in PRINTED)}]
    turned = published(columns=columns, rows=rows, transposed=True, entries="columns")
    (series,) = compare(turned, sample_leaderboard(main_table(numbers([v / 100 for v in PRINTED], 0.01)))).series
    assert (series.label, series.order.n, series.says) == ("D of all", 8, "8 of 8 agree")


def test_a_column_with_other_settings_is_of_another_setting():
    column = {"key": "d", "label": "D", "ours": "main:D %, acme/eye[*]"}
    spec = ColumnSpec(key="d", label="D %, acme/eye[depth=2]", description="")
    table = main_table(numbers(PRINTED)).model_copy(update={"columns": (spec,)})
    comparison = compare(published(columns=[column]), sample_leaderboard(table))
    assert comparison.entries_differ == ("D %, acme/eye has depth=2",)
    assert comparison.verdict == OTHER


def test_a_table_of_wins_is_compared_by_mean_share_of_wins():
    names = NAMES[:5]
    grid = [["-" if i == j else "100" if i < j else "0" for j in range(5)] for i in range(5)]
    columns = [{"key": n, "label": n, "ours": f"acme/{n}"} for n in names]
    rows = [{"label": n, "ours": f"acme/{n}", "values": " ".join(row)} for n, row in zip(names, grid, strict=True)]
    wins = published(columns=columns, rows=rows, matrix="wins")
    specs = tuple(ColumnSpec(key=f"c{i}", label=f"acme/{n}", description="") for i, n in enumerate(names[:4]))
    ours = tuple(
        Row(label=f"acme/{n}", values={f"c{j}": Value(value=None if i == j else float(i < j)) for j in range(4)})
        for i, n in enumerate(names[:4])
    )
    table = Table(id="wins", title="", caption="", entry="defense", columns=specs, rows=ours)
    (series,) = compare(wins, sample_leaderboard(table)).series
    assert [cell.published for cell in series.cells[:4]] == pytest.approx([100, 200 / 3, 100 / 3, 0])
    assert (series.order.tau, series.order.n) == (pytest.approx(1), 4)
    assert (series.cells[4].verdict, series.cells[0].verdict) == (NOT_RUN, "another setting")


def test_an_entry_whose_opponents_are_all_missing_has_its_printed_mean():
    columns = [{"key": n, "label": n, "ours": f"acme/{n}"} for n in NAMES[:3]]
    rows = [
        {"label": n, "ours": f"acme/{n}", "values": row}
        for n, row in zip(NAMES, ["- 80 20", "20 - 10", "80 90 -"], strict=False)
    ]
    spec = ColumnSpec(key="c0", label="acme/e0", description="")
    alone = Row(label="acme/e0", values={"c0": Value()})
    table = Table(id="wins", title="", caption="", entry="defense", columns=(spec,), rows=(alone,))
    comparison = compare(published(columns=columns, rows=rows, matrix="wins"), sample_leaderboard(table))
    assert [cell.published for cell in comparison.series[0].cells] == [50, 15, 85]
    assert comparison.not_run == {
        "no opponent of it is there": ("e0",),
        "acme/e1 is not there": ("e1",),
        "acme/e2 is not there": ("e2",),
    }
    json.dumps(comparison_facts(comparison), allow_nan=False)


@pytest.mark.parametrize(
    ("pointer", "labels", "expected"),
    [
        ("a/x", ["a/x", "a/x[s=1]"], "a/x"),
        ("a/x", ["a/x[s=1]"], None),
        ("a/x[*]", ["a/x[s=1]", "a/x[s=1,t=2]"], "a/x[s=1]"),
        ("a/x[t=2,*]", ["a/x[s=1]", "a/x[s=1,t=2]"], "a/x[s=1,t=2]"),
        ("a/x[*], as a/y[*]", ["a/x, as a/y[w=3]"], "a/x, as a/y[w=3]"),
        ("*, a/x, rho", ["d/e[n=1], a/x[s=1], rho", "d/e[n=1], a/z, rho"], "d/e[n=1], a/x[s=1], rho"),
        ("D %, a/x[*]", ["D %, fixed, a/x", "D %, a/x[k=(1, 2)]"], "D %, a/x[k=(1, 2)]"),
    ],
)
def test_pointers_find_the_nearest_label(pointer, labels, expected):
    assert match(pointer, labels)[0] == expected


def test_settings_beyond_a_pointer_are_named():
    assert extra("a/x[t=2,*]", "a/x[t=2,k=(1, 2),s=1]") == ("k=(1, 2)", "s=1")


def test_every_published_table_is_compared_with_nothing_and_every_pointer_names_its_table():
    """The tables that pointers name are those of the tracks, and facts of every comparison can be written as JSON."""
    import json

    names_by_track = {
        "harness/iqa": {"defenses", "trained", "certified", "classes", "correlations", "by-group", "by-strength-fixed",
                        "by-strength-adaptive", "by-metric-adaptive", "by-type-fixed", "by-dataset-fixed",
                        "by-dataset-adaptive", "wins-d-fixed", "wins-d-adaptive", "wins-ssim-fixed",
                        "wins-ssim-adaptive", "sampling-scores-harness-koniq10k"},
        "harness/membership": {"accuracy", "risk", "classes", "estimates", "priors"},
        "harness/perceptual": {"agreement", "tests"},
        "harness/reconstruction": {"agreement", "semsim-backbone", "metric-matrix-tau-harness-cifar100-images-"
                                   "images-600--harness-invgrad-starts-4--trained"},
    }  # fmt: skip
    for table in published_tables():
        comparison = compare(table, None)
        named = {column.ours.partition(":")[0] for column in table.columns if column.ours and not table.matrix}
        assert named | ({table.matrix} - {""}) <= names_by_track[table.track], table.address
        assert comparison.verdict == NOT_RUN
        json.dumps(comparison_facts(comparison), allow_nan=False)
    assert compare(find_table("iqa/4"), None).series == ()


def test_a_matrix_of_no_entries_has_no_means() -> None:
    table = Table(id="t", title="t", caption="", entry="metric", columns=(), rows=())
    assert _row_means(_grid(table, [])[0]).shape == (0,)


def test_single_cells_of_a_table_of_wins_are_counted() -> None:
    """24 of 48 conditions are 50 %, with the Wilson interval 36.39 to 63.61 %: 36.39 agrees, 36.38 does not."""
    names = NAMES[:3]
    columns = [{"key": n, "label": n, "ours": f"acme/{n}"} for n in names]
    rows = [
        {"label": n, "ours": f"acme/{n}", "values": row}
        for n, row in zip(names, ["- 36.39 80", "36.38 - 10", "20 10 -"], strict=True)
    ]
    specs = tuple(ColumnSpec(key=f"c{i}", label=f"acme/{n}", description="") for i, n in enumerate(names))
    mine = [[None, 50, 0], [50, None, 100], [100, 0, None]]
    ours = tuple(
        Row(label=f"acme/{n}", values={f"c{j}": Value(value=v, n=48) for j, v in enumerate(wins)})
        for n, wins in zip(names, mine, strict=True)
    )
    table = Table(id="wins", title="", caption="", entry="defense", columns=specs, rows=ours)
    (series,) = compare(published(columns=columns, rows=rows, matrix="wins"), sample_leaderboard(table)).series
    assert series.note == (
        "Of 6 single cells, 1 agree: the published share lies in the 95 % interval of ours. "
        "Of 1 pairs in which both tables have a winner, 0 have the same one."
    )
