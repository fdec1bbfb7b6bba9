"""A download that breaks off continues where it ended, and only the right file is kept.

The file comes from a server on this machine. `server.breaks` lists after how many bytes the next connections end;
`server.asked` lists the Range headers that it received.
"""

import threading
from collections.abc import Iterator

import pytest
from tests.small_asset import CONTENT, asset
from tests.small_server import Server

from imharness.cli import download as module
from imharness.cli.download import download
from imharness.contracts.assets import cache_folder
from imharness.errors import HarnessError

pytestmark = pytest.mark.usefixtures("empty_places")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    with Server() as web_server:
        thread = threading.Thread(target=web_server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield web_server
        web_server.shutdown()
        thread.join()


def nothing(done: int, total: int) -> None:
    """Ignore the progress."""


def test_half_bodies_are_gone_on_with_while_more_comes(server: Server) -> None:
    server.breaks = [2_000_000, 1_500_000]
    path = download(server.asset(), nothing)
    assert server.asked == ["", "bytes=2000000-", "bytes=3500000-"]
    assert path.read_bytes() == CONTENT
    assert asset().path() == path


def test_a_server_that_brings_no_more_ends_it_and_the_next_command_goes_on(server: Server) -> None:
    server.breaks = [1_000_000, 0]
    with pytest.raises(HarnessError, match=r"broke off: .*; run the command again to continue"):
        download(server.asset(), nothing)
    assert download(server.asset(), nothing).read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=1000000-"


def test_half_a_file_without_size_and_digest_is_not_taken_for_the_whole(server: Server) -> None:
    server.breaks = [100, 0]
    with pytest.raises(HarnessError, match=r"0 of 5119900 bytes|100 of 5120000 bytes"):
        download(server.asset(size=0, sha256=""), nothing)
    assert not list(cache_folder().rglob("*.bin"))


def test_a_file_that_was_whole_before_is_asked_for_once_more(server: Server) -> None:
    partial_file = cache_folder() / "a" / "weights.bin.part"
    partial_file.parent.mkdir(parents=True)
    partial_file.write_bytes(CONTENT)
    assert download(server.asset(size=0), nothing).read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(CONTENT)}-"]


def test_a_server_without_ranges_starts_anew(server: Server) -> None:
    server.ranges, server.breaks = False, [2_000_000]
    assert download(server.asset(), nothing).read_bytes() == CONTENT


def test_a_web_page_instead_of_the_file_is_refused(server: Server) -> None:
    server.content = b"<html>sign in</html>"
    with pytest.raises(HarnessError, match=r"a web page instead of the file\?"):
        download(server.asset(size=0), nothing)
    assert not list(cache_folder().rglob("*.*"))


def test_a_server_that_nobody_answers_at_is_told(server: Server) -> None:
    gone = server.asset(address="http://127.0.0.1:1/x")
    with pytest.raises(HarnessError, match=r"broke off: .*refused"):
        download(gone, nothing)


def test_some_digits_of_a_digest_are_enough_and_a_file_without_address_says_where_it_goes(server: Server) -> None:
    short = server.asset(sha256=asset().sha256[:8], size=0)
    assert download(short, nothing).read_bytes() == CONTENT
    assert not short.model_copy(update={"sha256": "00000000"}).fits(asset().sha256)
    by_hand = asset().model_copy(update={"file": "b/none.pth", "address": "", "source": "its authors"})
    with pytest.raises(HarnessError, match=r"get it from its authors and put it at .*/b/none\.pth"):
        download(by_hand, nothing)
