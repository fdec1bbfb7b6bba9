"""A published leaderboard as data frames: from its folder, and from a server of this machine."""

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.core.exports.leaderboards import sample_leaderboard
from tests.leaderboard.contested import FLIP, JPEG, MEDIAN, NOISE, NONE, PURIFIER

import imharness as ih
from imharness.documents.entries import Entry
from imharness.documents.tables import Row
from imharness.errors import UsageError
from imharness.notebook import published
from imharness.notebook.load import of_leaderboard

pd = pytest.importorskip("pandas")
TIERS = {  # the tier of each entry of `sample_leaderboard`
    NONE: "control",
    JPEG: "may be best",
    FLIP: "behind",
    MEDIAN: "costs too much",
    NOISE: "flagged",
    PURIFIER: "incomplete",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from imharness_leaderboard.folder import SiteFolder
    from imharness_leaderboard.numbers import write_results

    folder = SiteFolder(tmp_path_factory.mktemp("site"))
    write_results(folder, [sample_leaderboard()], "2026-11")
    folder.finish()
    return folder.root


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder; `moved` maps a path to the address that it is redirected to."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.moved = str(folder), dict[str, str]()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.SimpleHTTPRequestHandler):
    server: Server

    def __init__(self, *arguments, **named) -> None:
        super().__init__(*arguments, directory=arguments[2].folder, **named)

    def do_GET(self) -> None:
        if self.path in self.server.moved:
            self.send_response(302)
            self.send_header("Location", self.server.moved[self.path])
            self.end_headers()
        elif self.path.startswith("/short/"):  # announces 1000 bytes and sends one
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"{")
        else:
            super().do_GET()

    def log_message(self, *words) -> None:
        pass


@pytest.fixture
def server(site: Path) -> Iterator[Server]:
    with Server(site) as web_server:
        threading.Thread(target=web_server.serve_forever, daemon=True).start()
        yield web_server
        web_server.shutdown()


def test_a_folder_and_an_address_give_the_same_leaderboard(site: Path, server: Server) -> None:
    local_board = ih.load_leaderboard(site)
    assert local_board.release == "2026-11"
    for address in (server.address, f"{server.address}/", f"{server.address}/index.html"):
        other = ih.load_leaderboard(address)
        for frame in ("to_dataframe", "standings", "findings_dataframe"):
            pd.testing.assert_frame_equal(getattr(local_board, frame)(), getattr(other, frame)())
    source_board = sample_leaderboard()
    assert local_board.to_dataframe().index.tolist() == [row.label for row in source_board.tables[0].rows]
    assert list(local_board.tables) == [table.id for table in source_board.tables]


def test_standings_say_who_may_be_best_who_is_a_control_and_why_others_cannot_win(site: Path) -> None:
    standings = ih.load_leaderboard(site).standings().set_index("entry")
    assert standings["tier"].to_dict() == TIERS
    assert standings.loc[NONE, "control"] != ""
    assert standings.loc[NOISE, "flags"] != ""
    assert standings.loc[MEDIAN, "gate"] == "fails"
    assert not standings.loc[PURIFIER, "complete"]
    assert standings.loc[JPEG, "standing"] == ""
    [ranking] = sample_leaderboard().rankings
    assert standings.index[standings["winner"]].tolist() == [label for label in [ranking.winner] if label]


MINE = "acme/mine"


def mine(labels: Sequence[str] = (NONE, JPEG), shift: float = 0.0, **changes: object) -> ih.Result:
    """Return a result of a user: rows of the leaderboard with numbers moved by `shift`, and a row called `MINE`."""
    whole = sample_leaderboard(**changes)
    table = whole.tables[0]
    rows = [moved(row, shift) for row in table.rows if row.label in labels]
    alone = table.model_copy(update={"rows": (*rows, table.rows[0].model_copy(update={"label": MINE}))})
    return of_leaderboard(whole.model_copy(update={"tables": (alone,), "rankings": ()}))[1]


def moved(row: Row, shift: float) -> Row:
    """Return a row whose numbers are larger by `shift`."""
    measured = {key: value for key, value in row.values.items() if value.value is not None}
    numbers = {key: value.model_copy(update={"value": value.value + shift}) for key, value in measured.items()}
    return row.model_copy(update={"values": {**row.values, **numbers}})


def test_own_entries_stand_beside_published_ones_without_a_rank(site: Path) -> None:
    before, result = ih.load_leaderboard(site), mine()
    beside = before.with_mine(result)
    table, first = beside.table(), before.table()
    assert table.labels == (MINE, *first.labels)
    row = table.spec.rows[0]
    assert {row.values[key].value for key in ("rank", "behind")} == {None}
    assert "it has no rank" in row.values["rank"].missing
    assert row.values["worst"] == result.table_list[0].rows[-1].values["worst"]
    assert table.spec.note.endswith(f"Measured by you, not published, and so without a rank: {MINE}.")
    assert beside.rankings == before.rankings
    assert MINE in repr(beside)
    assert ih.load_leaderboard(site).table().labels == first.labels, "what is published stays"


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda: mine(limit=6), "computed with limit 6, the leaderboard 12"),
        (lambda: mine(profile="quick"), "computed with profile quick, the leaderboard p"),
        (lambda: mine(set_up={"options": {"samples": 2}}), "with other options of the track"),
        (lambda: mine(shift=3.0), "run the same attacks, data and version"),
        (lambda: "store", "expected a result"),
        (lambda: of_leaderboard(sample_leaderboard())[1], "it has no entry that the leaderboard lacks"),
        (lambda: mine(labels=()), "no entry of the table .* is in both"),
    ],
)
def test_entries_that_say_nothing_beside_it_are_refused(site: Path, result, message: str) -> None:
    with pytest.raises(UsageError, match=f"^mine: .*{message}"):
        ih.load_leaderboard(site).with_mine(result())


def test_what_entries_were_measured_with_must_be_the_same(tmp_path: Path) -> None:
    from imharness_leaderboard.folder import SiteFolder
    from imharness_leaderboard.numbers import write_results

    attacks = [Entry(kind="attack", id=f"harness/{name}", label=f"harness/{name}", version="2") for name in "ab"]
    entries = (*attacks, Entry(kind="defense", id=NONE, label=NONE, version="1"))
    folder = SiteFolder(tmp_path)
    write_results(folder, [sample_leaderboard(entries=entries)], "2026-11")
    folder.finish()
    measured = ih.load_leaderboard(folder.root)
    others = Entry(kind="defense", id=MINE, label=MINE, version="1")
    assert measured.with_mine(mine(entries=(*attacks, others))).table().labels[0] == MINE
    newer = attacks[1].model_copy(update={"version": "3"})
    for yours in (attacks[:1], (attacks[0], newer)):
        with pytest.raises(UsageError, match=r"^mine: it was computed without attack harness/b, version 2 of the lead"):
            measured.with_mine(mine(entries=yours))
    with pytest.raises(UsageError, match="attack harness/a, version 2 and 1 other component of the leaderboard"):
        measured.with_mine(mine(entries=()))


@pytest.mark.parametrize(("shift", "agrees"), [(0.3, True), (3.0, False)])
def test_of_a_secret_split_numbers_agree_within_the_published_interval(
    tmp_path: Path, shift: float, agrees: bool
) -> None:
    from imharness_leaderboard.folder import SiteFolder
    from imharness_leaderboard.numbers import write_results

    folder = SiteFolder(tmp_path)
    write_results(folder, [sample_leaderboard(secret="ab" * 8)], "2026-11")
    folder.finish()
    secret_one = ih.load_leaderboard(folder.root)
    if agrees:
        assert "Measured by you, on the public split" in secret_one.with_mine(mine(shift=shift)).table().spec.note
        return
    with pytest.raises(UsageError, match="run the same attacks"):
        secret_one.with_mine(mine(shift=shift))


def test_findings_are_the_sentences_of_the_leaderboard(site: Path) -> None:
    findings = ih.load_leaderboard(site).findings_dataframe()
    [ranking] = sample_leaderboard().rankings
    assert findings["text"].tolist() == [finding.text for finding in ranking.findings]
    assert findings["tier"].tolist() == [finding.tier for finding in ranking.findings]
    assert set(findings["tier"]) <= {"shown", "ruled out", "open"}


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://example.org/leaderboard", "must begin with https://"),
        ("ftp://localhost/leaderboard", "must begin with https://"),
        ("file:///etc/passwd", "is not the address of a site"),
        ("https://me:secret@example.org", "is not the address of a site"),
        ("https://example.org:port/", "is not the address of a site"),
        ("https://", "is not the address of a site"),
    ],
)
def test_only_encrypted_addresses_are_asked(address: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "_fetched", lambda url: pytest.fail(f"{url} was asked"))
    with pytest.raises(UsageError, match=rf"^site: .*{message}"):
        ih.load_leaderboard(address)


def test_what_a_server_says_is_told_in_one_line(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.moved = {"/moved/data/results.json": "http://example.org/results.json"}
    for path, message in (
        ("/moved", "must begin with https"),
        ("/nothing", "answers 404"),
        ("/short", r"broke off after 1 of 1000 bytes|IncompleteRead"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            ih.load_leaderboard(server.address + path)
        assert "\n" not in str(caught.value)
    server.moved = {"/moved/data/results.json": f"{server.address}/data/results.json"}
    assert ih.load_leaderboard(f"{server.address}/moved").release == "2026-11"
    monkeypatch.setattr(published, "LARGEST", 1000)
    with pytest.raises(UsageError, match=r"has more than \d+ MiB"):
        ih.load_leaderboard(server.address)
    server.server_close()
    with pytest.raises(UsageError, match="is not reached"):
        ih.load_leaderboard("http://127.0.0.1:9")


def test_a_folder_that_is_no_site_or_of_another_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^site: .* has no data/results\.json"):
        ih.load_leaderboard(tmp_path)
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "results.json"
    for content, message in (
        ({"schema_version": 1, "leaderboards": []}, "has the format 1; this version of the harness reads 4"),
        ([], "has the format None"),
        ({"schema_version": 4, "leaderboards": [{"track": "x"}]}, "is not a list of tables"),
        ({"schema_version": 4}, "is not a list of tables"),
        ({"schema_version": 4, "leaderboards": []}, "has no leaderboard"),
    ):
        file.write_text(json.dumps(content))
        with pytest.raises(UsageError, match=message):
            ih.load_leaderboard(tmp_path)
    file.write_bytes(b"\x80\x04K\x01.")
    with pytest.raises(UsageError, match=r"^site: .* is not UTF-8"):
        ih.load_leaderboard(tmp_path)


def test_it_imports_no_torch(site: Path) -> None:
    code = f"import sys, imharness as ih; ih.load_leaderboard({str(site)!r}).standings(); "
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
