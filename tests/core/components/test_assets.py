"""Assets are found and verified."""

import hashlib
from pathlib import Path

import pytest

from imharness.components.assets import Asset, cache_folder
from imharness.errors import Unavailable

CONTENT = bytes(range(256)) * 20_000


def asset(**changes) -> Asset:
    facts = {
        "name": "weights", "file": "a/weights.bin", "sha256": hashlib.sha256(CONTENT).hexdigest(), "size": len(CONTENT),
        "licence": "MIT", "source": "https://example.org", "address": "https://example.org/weights.bin",
    }  # fmt: skip
    return Asset(**(facts | changes))


@pytest.fixture(autouse=True)
def empty_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path / "shelf"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_the_shelf_comes_before_the_cache_and_damage_is_named(tmp_path) -> None:
    for folder in (tmp_path / "shelf", cache_folder()):
        (folder / "a").mkdir(parents=True)
        (folder / "a" / "weights.bin").write_bytes(CONTENT)
    assert asset().path() == tmp_path / "shelf" / "a" / "weights.bin"
    (tmp_path / "shelf" / "a" / "weights.bin").write_bytes(CONTENT[:-1])
    with pytest.raises(Unavailable, match="is damaged") as caught:
        asset().path()
    assert caught.value.remedy.endswith("harness assets get weights")


def test_an_absent_asset_says_how_to_get_it() -> None:
    with pytest.raises(Unavailable, match="get it with: harness assets get weights"):
        asset().path()


@pytest.mark.parametrize("changes", [{"address": "http://example.org/x"}, {"sha256": "0"}, {"file": "/etc/passwd"}])
def test_unsafe_assets_cannot_be_declared(changes) -> None:
    with pytest.raises(ValueError, match="1 validation error"):
        asset(**changes)


def test_real_weights_are_found(shared_data, monkeypatch) -> None:
    from imharness.components.registry import installed

    monkeypatch.setenv("HARNESS_ASSETS", str(shared_data))
    metric = installed().one("metric", "lpips[net=squeeze]")
    assert all(a.path().is_relative_to(shared_data) for a in metric.assets())
