"""Folders as data sets: layouts, what is missing, subsets; features against their definitions."""

import csv
import re
import shutil
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from imharness.components.registry import installed
from imharness.errors import ContractError, Unavailable, UsageError
from imharness_iqa.sampling import CLUSTERS, clustered, colourfulness, spatial_information

CPU = torch.device("cpu")


def paint(folder, names, size=(20, 16)) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        noise = np.random.default_rng(i).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / name)


def table(path, header, rows) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


@pytest.mark.filterwarnings("ignore:.*does not name", "ignore:.*are not RGB")
def test_any_folder_is_a_data_set_with_and_without_scores(tmp_path) -> None:
    paint(tmp_path, ["b.png", "a.png"])
    paint(tmp_path, ["wide.png"], size=(30, 16))
    Image.fromarray(np.full((16, 20), 99, dtype=np.uint8)).save(tmp_path / "grey.png")
    dataset = installed().one("dataset", f"folder:{tmp_path}")
    images = dataset.build(CPU)
    assert images.names == ("a.png", "b.png", "grey.png", "wide.png")
    assert images.shapes == ((16, 20), (16, 20), (16, 20), (16, 30))
    pixels = images.load([0, 2])
    assert pixels.shape == (2, 3, 16, 20)
    np.testing.assert_array_equal(
        pixels[0].mul(255).byte().permute(1, 2, 0), np.asarray(Image.open(tmp_path / "a.png"))
    )
    assert (pixels[1] == 99 / 255).all()
    assert np.isnan(images.columns["mos"]).all()
    assert images.proxy
    before = dataset.content()
    table(tmp_path / "mos.csv", ["image", "mos"], [["b.png", 3.5], ["a.png", 2]])
    judged = dataset.build(CPU)
    assert dict(zip(judged.names, judged.columns["mos"], strict=True)) == {"a.png": 2.0, "b.png": 3.5}
    assert dataset.content() != before


@pytest.mark.filterwarnings("ignore:.*does not name")
def test_what_is_missing_or_unreadable_is_named_counted_and_refused_or_skipped(tmp_path) -> None:
    paint(tmp_path, ["a.png"])
    (tmp_path / "broken.png").write_bytes(b"no image")
    table(tmp_path / "mos.csv", ["image", "mos"], [["a.png", 1], ["broken.png", 2], ["lost.png", 3]])
    name = f"folder:{tmp_path}"
    with pytest.raises(ContractError, match=r"2 of 3 images .* broken\.png, lost\.png"):
        installed().one("dataset", name).build(CPU)
    skipping = installed().one("dataset", name).with_parameters(on_missing="skip")
    with pytest.warns(UserWarning, match=r"2 of 3 images .* broken\.png, lost\.png; they are left out"):
        assert skipping.build(CPU).names == ("a.png",)
    (tmp_path / "half.png").write_bytes((tmp_path / "a.png").read_bytes()[:200])
    table(tmp_path / "mos.csv", ["image", "mos"], [["half.png", 1]])
    with pytest.raises(ContractError, match=r"1 of 1 images .* half\.png"):
        installed().one("dataset", name).build(CPU)


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        (["image", "score?"], [["a.png", 1]], "has no column mos or score"),
        (["image", "mos"], [["a.png", "good"]], "line 2: mos is not a finite number: 'good'"),
        (["image", "mos"], [["a.png", 1], ["a.png", 2]], r"names 1 images more than once: a\.png"),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(tmp_path, header, rows, message) -> None:
    paint(tmp_path, ["a.png"])
    table(tmp_path / "mos.csv", header, rows)
    with pytest.raises(UsageError, match=message):
        installed().one("dataset", f"folder:{tmp_path}").build(CPU)


def test_without_a_folder_it_says_what_to_do(tmp_path) -> None:
    with pytest.raises(Unavailable, match="folder:PATH"):
        installed().one("dataset", "folder").require()
    with pytest.raises(Unavailable, match="has no images"):
        installed().one("dataset", f"folder:{tmp_path}").require()


def test_the_published_layouts_are_read(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    registry = installed()
    names = ("koniq10k", "kadid10k", "nips2017", "agiqa-3k")
    for name in names:
        with pytest.raises(Unavailable, match=f"data set {name} is not on this machine"):
            registry.one("dataset", name).require()
    paint(tmp_path / "koniq10k" / "512x384", ["1.jpg", "2.jpg"])
    header = ["image_name", "c1", "MOS", "SD", "set"]
    table(
        tmp_path / "koniq10k" / "koniq10k_distributions_sets.csv",
        header,
        [["1.jpg", 0, 61.5, 1, "test"], ["2.jpg", 0, 33, 1, "test"]],
    )
    images = [f"I{r:02d}_{d:02d}_01.png" for r in (1, 2, 3) for d in (1, 2)]
    paint(tmp_path / "kadid10k" / "images", images)
    table(
        tmp_path / "kadid10k" / "dmos.csv",
        ["dist_img", "ref_img", "dmos", "var"],
        [[n, n[:3] + ".png", 4.2, 0] for n in images],
    )
    paint(tmp_path / "nips2017" / "images", ["x.png", "y.png"])
    table(tmp_path / "nips2017" / "images.csv", ["ImageId", "TrueLabel"], [["y", 3], ["x", 4]])
    paint(tmp_path / "agiqa-3k", ["g.jpg"])
    table(tmp_path / "agiqa-3k" / "data.csv", ["name", "mos_quality", "mos_align"], [["g.jpg", 2.5, 1]])
    datasets = {name: registry.one("dataset", name).build(CPU) for name in names}
    assert datasets["koniq10k"].columns["mos"].tolist() == [61.5, 33.0]
    assert len(datasets["kadid10k"]) == 6
    assert datasets["nips2017"].names == ("x.png", "y.png")
    assert datasets["agiqa-3k"].columns["mos"].tolist() == [2.5]
    some = registry.one("dataset", "kadid10k[references=2]").build(CPU)
    assert len(some) == 4
    assert len(set(some.columns["reference"])) == 2


def test_koniqs_real_table_gives_a_subset_of_all_clusters(shared_data, tmp_path, monkeypatch) -> None:
    real = shared_data / "koniq10k" / "koniq10k_distributions_sets.csv"
    with real.open() as file:
        rows = list(csv.DictReader(file))[:120]
    folder = tmp_path / "koniq10k"
    paint(folder / "512x384", [row["image_name"] for row in rows])
    (folder / real.name).write_text("\n".join([*real.read_text().splitlines()[:121], ""]))
    monkeypatch.setenv("HARNESS_ASSETS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    subset = installed().one("dataset", "koniq10k[per_cluster=3]")
    first, again = subset.build(CPU), subset.build(CPU)
    assert first.names == again.names
    assert CLUSTERS < len(first) <= 3 * CLUSTERS
    assert subset.with_parameters(draw=1).build(CPU).names != first.names


def test_features_follow_their_definitions() -> None:
    edge = torch.zeros(1, 3, 6, 8)
    edge[..., 4:] = 1
    magnitude = np.zeros((4, 6))
    magnitude[:, 2:4] = 4 * 255
    assert float(spatial_information(edge)) == pytest.approx(magnitude.std(), rel=1e-5)
    red = torch.zeros(1, 3, 4, 4)
    red[:, 0] = 1
    assert float(colourfulness(red)) == pytest.approx(0.3 * np.hypot(255, 127.5), rel=1e-5)
    assert float(colourfulness(torch.full((1, 3, 4, 4), 0.4))) == 0


def test_a_subset_takes_from_every_cluster_and_small_sets_are_taken_whole() -> None:
    rng = np.random.default_rng(0)
    centres = 10 * rng.normal(size=(CLUSTERS, 3))
    features = np.repeat(centres, 20, axis=0) + 0.1 * rng.normal(size=(20 * CLUSTERS, 3))
    chosen = clustered(features, 4, draw=0)
    assert np.bincount(chosen // 20, minlength=CLUSTERS).tolist() == [4] * CLUSTERS
    assert clustered(features[:7], 4, draw=0).tolist() == list(range(7))


def scene(i: int, size=(48, 40)) -> np.ndarray:
    """Return a smooth image that looks like no other, uint8 ``(H, W, 3)``."""
    noise = np.random.default_rng(i).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC))


def distorted(folder, photographs: int, versions: int, name: str = "{p}-{v}.png") -> None:
    """Write versions of photographs; version v has noise with a deviation of 8 v grey levels."""
    for p in range(photographs):
        for v in range(versions):
            noise = np.random.default_rng(100 * p + v).normal(0, 8 * v, (40, 48, 3))
            path = folder / name.format(p=p, v=v)
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((scene(p) + noise).clip(0, 255).astype(np.uint8)).save(path)


def test_versions_of_a_photograph_count_as_one_unless_a_column_says_otherwise(tmp_path) -> None:
    distorted(tmp_path, photographs=3, versions=4)
    dataset = installed().one("dataset", f"folder:{tmp_path}")
    with pytest.warns(UserWarning, match="12 images look like 3 photographs, and count as so many, such as 0-1.png"):
        images = dataset.build(CPU)
    assert len(set(images.columns["photograph"])) == 3
    assert len(set(images.columns["photograph"][:3])) == 3, "a limit of three takes three photographs"
    rows = [[f"{p}-{v}.png", v, f"{p}{v}"] for p in range(3) for v in range(4)]
    table(tmp_path / "mos.csv", ["image", "mos", "photograph"], rows)
    with pytest.warns(UserWarning, match=r"of 12 images look like copies of others"):
        assert len(set(dataset.build(CPU).columns["photograph"])) == 12
    rows = [[image, mos, f"scene{' ' * (number % 2)}"] for number, (image, mos, _) in enumerate(rows)]
    table(tmp_path / "mos.csv", ["image", "mos", "photograph"], rows)
    assert set(dataset.build(CPU).columns["photograph"]) == {"scene"}, "spaces around a name do not count"


def test_folders_are_photographs_and_images_that_a_table_lacks_are_named(tmp_path) -> None:
    distorted(tmp_path, photographs=2, versions=3, name="{p}/{v}.png")
    dataset = installed().one("dataset", f"folder:{tmp_path}")
    with pytest.warns(UserWarning, match="6 images in 2 folders count as 2 photographs, one for each folder"):
        assert sorted(dataset.build(CPU).columns["photograph"]) == ["0"] * 3 + ["1"] * 3
    table(tmp_path / "mos.csv", ["image", "mos"], [["0/0.png", 1], ["1/0.png", 2]])
    with pytest.warns(UserWarning, match=r"does not name 0/1\.png, 0/2\.png, 1/1\.png, 1/2\.png, so they are left out"):
        assert len(dataset.build(CPU)) == 2


def test_copies_that_count_as_two_photographs_are_named(tmp_path) -> None:
    """A photograph that stands both beside a folder of its versions and in it would make intervals narrower."""
    distorted(tmp_path, photographs=2, versions=2, name="{p}/{v}.png")
    shutil.copy(tmp_path / "0" / "0.png", tmp_path / "0.png")
    dataset = installed().one("dataset", f"folder:{tmp_path}")
    with (
        pytest.warns(UserWarning, match="4 images in 2 folders count as 2 photographs"),
        pytest.warns(
            UserWarning, match=r"2 of 5 images look like copies .* other photographs, such as 0/0\.png of 0\.png, 0/1"
        ),
    ):
        assert len(set(dataset.build(CPU).columns["photograph"])) == 3
    rows = [[name, 1, "one"] for name in ("0.png", "0/0.png")]
    table(tmp_path / "mos.csv", ["image", "mos", "photograph"], [*rows, ["0/1.png", 2, "one"], ["1/0.png", 3, "two"]])
    with pytest.warns(UserWarning, match="does not name 1/1.png"):
        dataset.build(CPU)


def test_a_photograph_saved_again_in_another_format_and_size_is_named(tmp_path) -> None:
    """A PNG and its JPEG of half the size, with a line each in mos.csv, count as two photographs, with a warning."""
    names = ["0.png", "1.png", "2.png"]
    for i, name in enumerate(names):
        Image.fromarray(scene(i, (384, 320))).save(tmp_path / name)
    Image.fromarray(scene(0, (384, 320))).resize((192, 160)).save(tmp_path / "again.jpg", quality=80)
    rows = [[name, i, name] for i, name in enumerate([*names, "again.jpg"])]
    table(tmp_path / "mos.csv", ["image", "mos", "photograph"], rows)
    dataset = installed().one("dataset", f"folder:{tmp_path}")
    with pytest.warns(UserWarning, match=r"1 of 4 images look like copies .* 0\.png of again\.jpg; leave"):
        assert len(set(dataset.build(CPU).columns["photograph"])) == 4
    table(tmp_path / "mos.csv", ["image", "mos", "photograph"], [[*row[:2], row[2][0]] for row in rows[:-1]])
    (tmp_path / "again.jpg").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset.build(CPU)


@pytest.mark.parametrize("other", ["SCENE\xe9", "scene\u0065\u0301"])
def test_photographs_of_two_spellings_are_named(tmp_path, other) -> None:
    paint(tmp_path, ["a.png", "b.png"])
    table(tmp_path / "mos.csv", ["image", "mos", "photograph"], [["a.png", 1, "scene\xe9"], ["b.png", 2, other]])
    dataset = installed().one("dataset", f"folder:{tmp_path}")
    with pytest.warns(UserWarning, match=r"'scene\\xe9' and '.*' differ only in capitals .* count as two photographs"):
        assert len(set(dataset.build(CPU).columns["photograph"])) == 2


def test_photographs_that_differ_stay_apart(tmp_path) -> None:
    distorted(tmp_path, photographs=30, versions=1)
    images = installed().one("dataset", f"folder:{tmp_path}").build(CPU)
    assert len(set(images.columns["photograph"])) == 30


def test_one_name_for_each_file_however_a_table_writes_it(tmp_path) -> None:
    paint(tmp_path, ["a.png", "b.png"])
    paint(tmp_path / "sub", ["c.png"], size=(22, 18))
    table(tmp_path / "mos.csv", ["image", "mos"], [["./a.png", 1], [".//b.png", 2], ["sub\\c.png", 3]])
    dataset = installed().one("dataset", f"folder:{tmp_path}")
    images = dataset.build(CPU)
    assert images.names == ("a.png", "b.png", "sub/c.png")
    assert images.columns["mos"].tolist() == [1, 2, 3]
    assert images.load([2]).shape == (1, 3, 18, 22)
    for twice in (["./a.png", "a.png"], ["sub/c.png", "sub\\c.png"], ["sub/./c.png", "./sub//c.png"]):
        table(tmp_path / "mos.csv", ["image", "mos"], [[name, i] for i, name in enumerate(twice)])
        with pytest.raises(UsageError, match="names 1 images more than once"):
            dataset.build(CPU)
    for away in ("../a.png", "/etc/a.png", "C:\\a.png", ".", "sub/../a.png"):
        table(tmp_path / "mos.csv", ["image", "mos"], [[away, 1]])
        with pytest.raises(UsageError, match="is not the name of a file below"):
            dataset.build(CPU)


def test_originals_have_one_name_too(tmp_path) -> None:
    distorted(tmp_path, photographs=3, versions=2)
    rows = [[f"{p}-1.png", p, f"{start}{p}-0.png"] for p, start in enumerate(("./", "", ".//"))]
    table(tmp_path / "mos.csv", ["image", "mos", "reference"], rows)
    images = installed().one("dataset", f"folder:{tmp_path}").build(CPU)
    assert sorted(images.columns["photograph"]) == ["0-0.png", "1-0.png", "2-0.png"]


def test_images_of_all_depths_are_measured_and_those_left_out_are_named(tmp_path) -> None:
    distorted(tmp_path, photographs=1, versions=1, name="logo.png")
    distorted(tmp_path, photographs=2, versions=3, name="{p}/deep/{v}.png")
    (tmp_path / "photo.heic").write_bytes(b"\0\0\0\x18ftypheic")
    paint(tmp_path / ".cache", ["copy.png"])
    dataset = installed().one("dataset", f"folder:{tmp_path}")
    with (
        pytest.warns(UserWarning, match="of 8 image files 7 are used; left out: 1 HEIC"),
        pytest.warns(UserWarning, match="6 images in 2 folders count as 2 photographs"),
        pytest.warns(UserWarning, match=r"1 of 7 images look like copies .* such as logo\.png of 0/deep/0\.png"),
    ):
        images = dataset.build(CPU)
    assert len(images) == 7
    assert sorted(images.columns["photograph"]) == ["0/deep"] * 3 + ["1/deep"] * 3 + ["logo.png"]


def test_a_folder_of_pictures_that_cannot_be_read_says_so(tmp_path) -> None:
    (tmp_path / "a.heic").write_bytes(b"\0\0\0\x18ftypheic")
    with pytest.raises(Unavailable, match="of 1 image files 0 are used; left out: 1 HEIC: install pillow-heif"):
        installed().one("dataset", f"folder:{tmp_path}").build(CPU)


@pytest.mark.parametrize("column", [True, False])
def test_one_folder_around_all_images_is_no_photograph(tmp_path, column: bool) -> None:
    distorted(tmp_path, photographs=3, versions=2, name="images/{p}-{v}.png")
    if column:
        rows = [[f"images/{p}-{v}.png", v, ""] for p in range(3) for v in range(2)]
        table(tmp_path / "mos.csv", ["image", "mos", "photograph"], rows)
    with pytest.warns(UserWarning, match="6 images look like 3 photographs"):
        images = installed().one("dataset", f"folder:{tmp_path}").build(CPU)
    assert len(set(images.columns["photograph"])) == 3


def test_versions_beside_folders_count_as_one(tmp_path) -> None:
    distorted(tmp_path, photographs=2, versions=3)
    distorted(tmp_path / "more", photographs=1, versions=1, name="x.png")
    with (
        pytest.warns(UserWarning, match="6 images look like 2 photographs"),
        pytest.warns(UserWarning, match=r"1 of 7 images look like copies .* such as more/x\.png of 0-0\.png"),
    ):
        images = installed().one("dataset", f"folder:{tmp_path}").build(CPU)
    assert len(set(images.columns["photograph"])) == 3


def test_a_phone_s_photograph_is_measured_upright(tmp_path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: to be turned by 90 degrees
    for ending in ("jpg", "mpo", "webp", "png", "avif"):
        image = Image.fromarray(scene(1)).transpose(Image.Transpose.ROTATE_90)
        extra = {"save_all": True, "append_images": [image]} if ending == "mpo" else {}
        image.save(tmp_path / f"{ending}.{ending}", exif=exif, quality=98, **extra)
    with pytest.warns(UserWarning, match="5 images look like one photograph, and count as one, such as"):
        images = installed().one("dataset", f"folder:{tmp_path}").build(CPU)
    assert set(images.shapes) == {(40, 48)}
    away = images.load(range(5)).mul(255).permute(0, 2, 3, 1).numpy() - scene(1)
    assert np.abs(away).mean() < 4


def test_columns_of_a_table_are_found_in_capitals_too(tmp_path) -> None:
    distorted(tmp_path, photographs=3, versions=2)
    rows = [[f"{p}-{v}.png", p, f"photo{p}", f"{p}-0.png"] for p in range(3) for v in range(2)]
    table(tmp_path / "mos.csv", ["Image", "Mos", " Photograph", "REFERENCE"], rows)
    dataset = installed().one("dataset", f"folder:{tmp_path}")
    images = dataset.build(CPU)
    assert sorted(images.columns["photograph"]) == ["photo0"] * 2 + ["photo1"] * 2 + ["photo2"] * 2
    assert sorted(set(images.columns["reference"])) == ["0-0.png", "1-0.png", "2-0.png"]
    table(tmp_path / "mos.csv", ["image", "mos", "photograph", "Photograph"], rows)
    with pytest.raises(UsageError, match="has the columns 'photograph' and 'Photograph'; rename one of them"):
        dataset.build(CPU)
    table(tmp_path / "mos.csv", ["image", "", "photograph", "reference"], rows)
    with pytest.raises(UsageError, match="has no column mos or score"):
        dataset.build(CPU)


@pytest.mark.parametrize("name", ["MOS.csv", "mos.csv.txt", "Mos.xlsx"])
def test_a_table_of_another_name_is_named(tmp_path, name: str) -> None:
    distorted(tmp_path, photographs=3, versions=1)
    rows = [[f"{p}-0.png", p] for p in range(3)]
    table(tmp_path / name, ["image", "mos"], rows)
    dataset = installed().one("dataset", f"folder:{tmp_path}")
    with pytest.warns(UserWarning, match=f"has {re.escape(name)}; it is not read; save it as mos.csv"):
        assert np.isnan(dataset.build(CPU).columns["mos"]).all()
    table(tmp_path / "mos.csv", ["image", "mos"], rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not np.isnan(dataset.build(CPU).columns["mos"]).any()
