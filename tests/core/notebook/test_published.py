"""A published board as data frames: from its folder, and from a server of this machine."""

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core.exports.boards import board
from tests.leaderboard.contested import FLIP, JPEG, MEDIAN, NOISE, NONE, PURIFIER

import imharness as ih
from imharness.errors import UsageError
from imharness.notebook import published

pd = pytest.importorskip("pandas")
TIERS = {
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
    write_results(folder, [board()], "2026-11")
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

    def __init__(self, *given, **named) -> None:
        super().__init__(*given, directory=given[2].folder, **named)

    def do_GET(self) -> None:
        if self.path in self.server.moved:
            self.send_response(302)
            self.send_header("Location", self.server.moved[self.path])
            self.end_headers()
        elif self.path.startswith("/short/"):
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
    with Server(site) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


def test_a_folder_and_an_address_give_the_same_board(site: Path, server: Server) -> None:
    own = ih.load_board(site)
    assert own.release == "2026-11"
    for address in (server.address, f"{server.address}/", f"{server.address}/index.html"):
        other = ih.load_board(address)
        for frame in ("to_dataframe", "standings", "found"):
            pd.testing.assert_frame_equal(getattr(own, frame)(), getattr(other, frame)())
    made = board()
    assert own.to_dataframe().index.tolist() == [row.label for row in made.tables[0].rows]
    assert list(own.tables) == [table.id for table in made.tables]


def test_standings_say_who_may_be_best_who_is_a_control_and_why_others_cannot_win(site: Path) -> None:
    found = ih.load_board(site).standings().set_index("entry")
    assert found["tier"].to_dict() == TIERS
    assert found.loc[NONE, "control"] != ""
    assert found.loc[NOISE, "flags"] != ""
    assert found.loc[MEDIAN, "gate"] == "fails"
    assert not found.loc[PURIFIER, "complete"]
    assert found.loc[JPEG, "standing"] == ""
    [ranking] = board().rankings
    assert found.index[found["winner"]].tolist() == [own for own in [ranking.winner] if own]


def test_findings_are_the_sentences_of_the_board(site: Path) -> None:
    found = ih.load_board(site).found()
    [ranking] = board().rankings
    assert found["text"].tolist() == [own.text for own in ranking.findings]
    assert found["tier"].tolist() == [own.tier for own in ranking.findings]
    assert set(found["tier"]) <= {"shown", "ruled out", "open"}


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://example.org/board", "must begin with https://"),
        ("ftp://localhost/board", "must begin with https://"),
        ("file:///etc/passwd", "is not the address of a site"),
        ("https://me:secret@example.org", "is not the address of a site"),
        ("https://example.org:port/", "is not the address of a site"),
        ("https://", "is not the address of a site"),
    ],
)
def test_only_encrypted_addresses_are_asked(address: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "_fetched", lambda asked: pytest.fail(f"{asked} was asked"))
    with pytest.raises(UsageError, match=rf"^site: .*{said}"):
        ih.load_board(address)


def test_what_a_server_says_is_told_in_one_line(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.moved = {"/moved/data/results.json": "http://example.org/results.json"}
    for path, said in (
        ("/moved", "must begin with https"),
        ("/nothing", "answers 404"),
        ("/short", r"broke off after 1 of 1000 bytes|IncompleteRead"),
    ):
        with pytest.raises(UsageError, match=said) as caught:
            ih.load_board(server.address + path)
        assert "\n" not in str(caught.value)
    server.moved = {"/moved/data/results.json": f"{server.address}/data/results.json"}
    assert ih.load_board(f"{server.address}/moved").release == "2026-11"
    monkeypatch.setattr(published, "LARGEST", 1000)
    with pytest.raises(UsageError, match=r"has more than \d+ MiB"):
        ih.load_board(server.address)
    server.server_close()
    with pytest.raises(UsageError, match="is not reached"):
        ih.load_board("http://127.0.0.1:9")


def test_a_folder_that_is_no_site_or_of_another_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^site: .* has no data/results\.json"):
        ih.load_board(tmp_path)
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "results.json"
    for content, said in (
        ({"schema_version": 1, "boards": []}, "has the format 1; this version of the harness reads 3"),
        ([], "has the format None"),
        ({"schema_version": 3, "boards": [{"track": "x"}]}, "is not a list of tables"),
        ({"schema_version": 3}, "is not a list of tables"),
        ({"schema_version": 3, "boards": []}, "has no board"),
    ):
        file.write_text(json.dumps(content))
        with pytest.raises(UsageError, match=said):
            ih.load_board(tmp_path)
    file.write_bytes(b"\x80\x04K\x01.")
    with pytest.raises(UsageError, match=r"^site: .* is not UTF-8"):
        ih.load_board(tmp_path)


def test_it_imports_no_torch(site: Path) -> None:
    code = f"import sys, imharness as ih; ih.load_board({str(site)!r}).standings(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
