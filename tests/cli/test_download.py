"""An asset is fetched in several goes if need be, and kept only when it is the right file."""

import io
import urllib.request

import pytest
from tests.small_asset import CONTENT, asset

from imharness.components.assets import cache_folder
from imharness.errors import HarnessError, Unavailable
from imharness_cli.download import CHUNK, download

pytestmark = pytest.mark.usefixtures("empty_places")


class Answer(io.BytesIO):
    """What a server sends; it breaks off after `breaks_after` bytes."""

    def __init__(self, content: bytes, status: int, breaks_after: int | None = None) -> None:
        super().__init__(content)
        self.status, self.left = status, breaks_after

    def read(self, size: int = -1) -> bytes:
        if self.left is not None:
            if self.left == 0:
                raise ConnectionResetError("connection reset")
            size = min(size, self.left)
            self.left -= size
        return super().read(size)


def serve(monkeypatch: pytest.MonkeyPatch, content: bytes, breaks: list[int | None], ranges: bool = True) -> list[str]:
    asked: list[str] = []

    def urlopen(request: urllib.request.Request, timeout: float) -> Answer:
        wanted = request.get_header("Range") or ""
        asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and ranges else 0
        return Answer(content[start:], 206 if start else 200, breaks.pop(0))

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return asked


def nothing(done: int, total: int) -> None:
    """Progress that nobody looks at."""


def test_a_download_that_broke_off_goes_on(monkeypatch, tmp_path) -> None:
    asked = serve(monkeypatch, CONTENT, [CHUNK * 2, None])
    with pytest.raises(HarnessError, match="broke off: connection reset; run the command again to go on"):
        download(asset(), nothing)
    with pytest.raises(Unavailable):
        asset().path()
    path = download(asset(), nothing)
    assert asked == ["", f"bytes={CHUNK * 2}-"]
    assert path.read_bytes() == CONTENT
    assert asset().path() == path


def test_a_server_without_ranges_starts_anew(monkeypatch) -> None:
    serve(monkeypatch, CONTENT, [CHUNK, None], ranges=False)
    with pytest.raises(HarnessError, match="broke off"):
        download(asset(), nothing)
    assert download(asset(), nothing).read_bytes() == CONTENT


def test_a_web_page_instead_of_the_file_is_refused(monkeypatch) -> None:
    serve(monkeypatch, b"<html>sign in</html>", [None])
    with pytest.raises(HarnessError, match=r"a web page instead of the file\?"):
        download(asset(), nothing)
    assert not list(cache_folder().rglob("*.*"))


def test_some_digits_of_a_digest_are_enough_and_a_file_without_address_says_where_it_goes(
    tmp_path, monkeypatch
) -> None:
    short = asset().model_copy(update={"sha256": asset().sha256[:8], "size": 0})
    serve(monkeypatch, CONTENT, [None])
    assert download(short, nothing).read_bytes() == CONTENT
    assert not short.model_copy(update={"sha256": "00000000"}).fits(asset().sha256)
    by_hand = asset().model_copy(update={"file": "b/none.pth", "address": "", "source": "its authors"})
    with pytest.raises(HarnessError, match=r"put it at .*/b/none\.pth, from its authors"):
        download(by_hand, nothing)
