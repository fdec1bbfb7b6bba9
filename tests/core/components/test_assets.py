"""Assets are looked for in HARNESS_ASSETS, here `shelf`, then in the cache; damaged and unsafe ones are refused."""

import pytest
from tests.small_asset import CONTENT, asset

from imharness.contracts.assets import cache_folder
from imharness.errors import Unavailable

pytestmark = pytest.mark.usefixtures("empty_places")


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
