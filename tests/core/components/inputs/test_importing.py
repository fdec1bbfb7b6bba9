"""What a person downloaded is taken when it is in the published layout, and refused in one line when it is not.

Every data set, and every file of weights without a published digest, goes through its importer: as a stand-in in the
published archives, cut off, in another layout, and with other shapes.
"""

import gzip
import io
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.standins import DATA, FILES, SMALL_FPR, SMALL_LIPSIM, SMALL_VIT, shallow_resnext

from imharness.components.inputs.archives import unpack
from imharness.components.inputs.checking import check_asset, check_data
from imharness.components.inputs.importing import RECORD, digest_of, import_asset, import_data
from imharness.components.inputs.needs import inputs_of
from imharness.components.registry import installed
from imharness.contracts.assets import Asset, cache_folder
from imharness.data import DataSource, ImageSet
from imharness.errors import UsageError
from imharness_iqa.metrics import fpr, koncept512
from imharness_perceptual.metrics import dreamsim, lipsim

pytestmark = pytest.mark.usefixtures("empty_places")
INPUTS = inputs_of(entry.component for entry in installed().entries.values())
SETS = [name for name, found in INPUTS.items() if isinstance(found.what, DataSource)]
BY_LOADER = [
    name
    for name, found in INPUTS.items()
    if isinstance(found.what, Asset)
    and not found.what.sha256
    and name not in ("mprnet-denoising", "dreamsim-dino-vitb16")
]
"""Files of weights that no digest tells: the loader does. The loader of MPRNet is in an extra package, and DreamSim's
file is an archive, which needs the backbone beside it."""
CPU = torch.device("cpu")


def packed(folder: Path, file: Path, *members: str, prefix: str = "") -> Path:
    """Pack members of a folder into a zip or a tar archive, below a prefix."""
    found = [f for m in members for f in ([folder / m] if (folder / m).is_file() else sorted((folder / m).rglob("*")))]
    names = [(f, prefix + str(f.relative_to(folder))) for f in found if f.is_file()]
    if file.suffix == ".zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path, name in names:
                archive.write(path, name)
        return file
    with tarfile.open(file, "w") if file.suffix == ".tar" else tarfile.open(file, "w:gz", compresslevel=1) as tar:
        for path, name in names:
            tar.add(path, name)
    return file


def bapps(folder: Path, to: Path) -> list[Path]:
    parts = (("2afc/val", "twoafc_val"), ("2afc/train", "twoafc_train"))
    found = [packed(folder / "2afc", to / f"{name}.tar.gz", part.removeprefix("2afc/")) for part, name in parts]
    return [*found, packed(folder, to / "jnd.tar.gz", "jnd")]


def caltech(folder: Path, to: Path) -> list[Path]:
    inner = packed(folder, to / "101_ObjectCategories.tar.gz", "101_ObjectCategories")
    place = to / "zip" / "caltech-101"
    place.mkdir(parents=True)
    inner.rename(place / inner.name)
    return [packed(to / "zip", to / "caltech-101.zip", "caltech-101")]


def mnist(folder: Path, to: Path) -> list[Path]:
    found = []
    for file in sorted(folder.iterdir()):
        found.append(to / f"{file.name}.gz")
        found[-1].write_bytes(gzip.compress(file.read_bytes()))
    return found


def given(name: str, members: list[str], prefix: str, loose: list[str], folder: Path, to: Path) -> list[Path]:
    """Pack members into one archive; loose ones stand beside it."""
    return [packed(folder, to / name, *members, prefix=prefix), *(shutil.copy(folder / x, to / x) for x in loose)]


PACKED: dict[str, Callable[[Path, Path], list[Path]]] = {
    "agiqa-3k": partial(given, "AGIQA-3K.zip", ["."], "AGIQA-3K/", []),
    "bapps": bapps,
    "caltech101": caltech,
    "celeba": partial(given, "img_align_celeba.zip", ["img_align_celeba"], "", ["identity_CelebA.txt"]),
    "cifar10": partial(
        given,
        "cifar-10-binary.tar.gz",
        [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"],
        "cifar-10-batches-bin/",
        [],
    ),
    "ch-mnist": partial(given, "archive.zip", ["hmnist_64_64_L.csv"], "", []),
    "cifar100": partial(given, "cifar-100-binary.tar.gz", ["train.bin", "test.bin"], "cifar-100-binary/", []),
    "imagenette": partial(given, "imagenette2-320.tgz", ["train", "val"], "imagenette2-320/", []),
    "kadid10k": partial(given, "kadid10k.zip", ["images", "dmos.csv"], "kadid10k/", []),
    "koniq10k": partial(given, "koniq10k_512x384.zip", ["512x384"], "", ["koniq10k_distributions_sets.csv"]),
    "location30": partial(given, "dataset_location.tgz", ["bangkok"], "", []),
    "mnist": mnist,
    "nips2017": partial(given, "archive.zip", ["images", "images.csv"], "", []),
    "purchase100": partial(given, "dataset_purchase.tgz", ["dataset_purchase"], "", []),
    "stanford-dogs": partial(given, "images.tar", ["Images"], "", []),
    "texas100": partial(given, "dataset_texas.tgz", ["feats", "labels"], "texas/100/", []),
    "tid2013": lambda folder, to: [shutil.copytree(folder, to / "tid2013")],
}
"""Name of a data set -> what packs its stand-in as it is published."""


def larger(folder: Path) -> None:
    """Enlarge the last picture."""
    file = sorted(f for f in folder.rglob("*") if f.suffix.lower() in (".png", ".jpg", ".bmp"))[-1]
    Image.open(file).resize((77, 55)).save(file)


def shorter_rows(name: str, folder: Path) -> None:
    """Take the last number of each row away."""
    lines = (folder / name).read_text().splitlines()
    (folder / name).write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")


def fewer(pattern: str, folder: Path) -> None:
    """Take some files away."""
    for file in sorted(folder.rglob(pattern))[-3:]:
        file.unlink()


def no_share(folder: Path) -> None:
    np.save(next((folder / "2afc" / "val").rglob("*.npy")), np.array([[7.0]]))


SPOILT: dict[str, Callable[[Path], None]] = {
    "agiqa-3k": partial(fewer, "*.jpg"),
    "bapps": no_share,
    "caltech101": lambda folder: shutil.rmtree(folder / "101_ObjectCategories" / "s1"),
    "celeba": lambda folder: (folder / "identity_CelebA.txt").write_text("000001.jpg\n"),
    "cifar10": lambda folder: (folder / "test_batch.bin").write_bytes(bytes(3 * 3074)),
    "ch-mnist": partial(shorter_rows, "hmnist_64_64_L.csv"),
    "cifar100": lambda folder: (folder / "test.bin").write_bytes(bytes(3 * 3073)),
    "imagenette": partial(fewer, "val/*/*.JPEG"),
    "location30": partial(shorter_rows, "bangkok"),
    "mnist": lambda folder: (folder / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + bytes(12)),
    "purchase100": partial(shorter_rows, "dataset_purchase"),
    "stanford-dogs": lambda folder: shutil.rmtree(folder / "Images" / "n02081-breed"),
    "texas100": partial(shorter_rows, "feats"),
}
"""Name of a data set -> what gives its stand-in other shapes; pictures of another size where none is named."""


def stand_in(name: str, tmp_path: Path) -> Path:
    folder = tmp_path / "stand-in" / name
    folder.mkdir(parents=True)
    DATA[name](folder)
    return folder


def smaller(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> DataSource:
    """Return the source with number, shape and digests of the stand-in instead of the published ones."""
    found = INPUTS[name]
    source = found.what
    assert isinstance(source, DataSource)
    changes: dict[str, object] = {
        "archives": tuple(archive.model_copy(update={"sha256": ""}) for archive in source.archives)
    }
    with monkeypatch.context() as patch:
        patch.setenv("HARNESS_ASSETS", str(folder.parent))
        whole = next(u for u in found.users if not source.units or u.published_units() == source.units)
        built = whole.build(CPU)
    if source.units:
        changes["units"] = len(built) if isinstance(built, ImageSet) else len(built.features)
    if source.shape:
        changes["shape"] = built.shapes[0] if isinstance(built, ImageSet) else tuple(built.features.shape[1:])
    return source.model_copy(update=changes)


def imported(name: str, source: DataSource, files: list[Path]) -> Path:
    return import_data(source, files, lambda: check_data(INPUTS[name].users, source))[0]


def refused(name: str, source: DataSource, files: list[Path]) -> str:
    """Return the one line that is said of wrong files, which leave nothing behind."""
    with pytest.raises(UsageError) as caught:
        imported(name, source, files)
    said = str(caught.value)
    assert "\n" not in said
    assert 20 < len(said) < 500
    assert any(file.name in said for file in files), said
    assert str(cache_folder()) not in said
    assert not cache_folder().exists() or not [f for f in cache_folder().iterdir() if f.name != "features"]
    return said


def test_every_data_set_has_an_importer_a_stand_in_and_a_way_to_get_it() -> None:
    assert set(SETS) == set(PACKED)
    assert set(SETS) <= set(DATA)
    for found in INPUTS.values():
        assert f"harness assets {'get' if found.downloads else 'import'} {found.name}" in found.steps
        assert found.downloads or "http" in found.steps


@pytest.mark.parametrize("name", SETS)
def test_a_data_set_is_taken_as_it_is_published(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = stand_in(name, tmp_path)
    source = smaller(name, folder, monkeypatch)
    (tmp_path / "got").mkdir()
    files = PACKED[name](folder, tmp_path / "got")
    assert {f.name for f in files} >= {a.file for a in source.archives if name != "agiqa-3k"}
    place = imported(name, source, files)
    assert place == cache_folder() / name
    for user in INPUTS[name].users:
        user.require()
    assert digest_of(files[0]) in (place / RECORD).read_text()


@pytest.mark.parametrize("name", SETS)
def test_wrong_files_are_refused_in_one_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = stand_in(name, tmp_path)
    source = smaller(name, folder, monkeypatch)
    for way in ("cut", "elsewhere", "shapes"):
        (tmp_path / way).mkdir()
    cut = PACKED[name](folder, tmp_path / "cut")
    if cut[0].is_dir():
        fewer("*.bmp", cut[0])
    else:
        cut[0].write_bytes(cut[0].read_bytes()[: cut[0].stat().st_size * 3 // 5])
    assert any(word in refused(name, source, cut) for word in ("cut off", "missing", "not an archive"))

    (tmp_path / "elsewhere" / "other").mkdir()
    (tmp_path / "elsewhere" / "other" / "readme.txt").write_text("another data set")
    other = packed(tmp_path / "elsewhere", tmp_path / "elsewhere" / "other.zip", "other")
    assert "has no " in refused(name, source, [other])

    SPOILT.get(name, larger)(folder)
    refused(name, source, PACKED[name](folder, tmp_path / "shapes"))


def test_a_wrong_file_leaves_the_right_one_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = stand_in("location30", tmp_path)
    source = smaller("location30", folder, monkeypatch)
    place = imported("location30", source, [folder / "bangkok"])
    right = (place / "bangkok").read_bytes()
    shorter_rows("bangkok", folder)
    with pytest.raises(UsageError, match="the published ones have"):
        imported("location30", source, [folder])
    assert (place / "bangkok").read_bytes() == right


def test_a_published_digest_is_asked_for(tmp_path: Path) -> None:
    wrong = tmp_path / "cifar-100-binary.tar.gz"
    wrong.write_bytes(b"<html>")
    found = INPUTS["cifar100"].what
    assert isinstance(found, DataSource)
    with pytest.raises(UsageError, match=r"its sha256 is .*, not 58a81ae192c2"):
        import_data(found, [wrong], lambda: None)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("../../evil", "leads outside"),
        ("/etc/evil", "leads outside"),
        ("a\\..\\b", "leads outside"),
        ("link", "not a plain file"),
        ("bomb", "more than is plausible"),
    ],
)
def test_archives_that_would_do_harm_are_refused(
    name: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imharness.components.inputs.archives.FREE", 1 << 20)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        entry = zipfile.ZipInfo(name)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = ((stat.S_IFLNK if name == "link" else stat.S_IFREG) | 0o644) << 16
        archive.writestr(entry, bytes(1 << 24) if name == "bomb" else b"/etc/passwd")
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = (tarfile.SYMTYPE, "/etc/passwd") if name == "link" else (tarfile.REGTYPE, "")
        content = bytes(1 << 24) if name == "bomb" else b""
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    for file in (tmp_path / "x.zip", tmp_path / "x.tgz"):
        with pytest.raises(UsageError, match=what):
            unpack(file, tmp_path / f"into {file.suffix}")
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize("kind", ["boundary", "in a header", "in a file", "damaged header"])
@pytest.mark.parametrize("packed_by", [bytes, gzip.compress])
def test_a_tar_archive_that_ends_early_is_refused(
    kind: str, packed_by: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    whole, third = io.BytesIO(), 2 * (512 + 1024)
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for number in range(5):
            member = tarfile.TarInfo(f"{number}.png")
            member.size = 700
            tar.addfile(member, io.BytesIO(bytes(700)))
    content = bytearray(whole.getvalue())
    ends = {"boundary": third, "in a header": third + 100, "in a file": third + 600, "damaged header": len(content)}
    (tmp_path / "whole.tar").write_bytes(packed_by(bytes(content)))
    unpack(tmp_path / "whole.tar", tmp_path / "whole")
    assert len(list((tmp_path / "whole").iterdir())) == 5
    content[third + 3] ^= 0xFF if kind == "damaged header" else 0
    (tmp_path / "x.tar").write_bytes(packed_by(bytes(content[: ends[kind]])))
    with pytest.raises(UsageError, match="is cut off"):
        unpack(tmp_path / "x.tar", tmp_path / "x")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Stand-ins for files of weights, each written once."""
    folder = tmp_path_factory.mktemp("weights")

    def file(name: str) -> Path:
        if not (folder / name).exists():
            FILES[name](folder / name)
        return folder / name

    return file


@pytest.mark.parametrize("name", BY_LOADER)
def test_weights_are_told_by_their_loader(
    name: str, weights: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(koncept512, "REPEATED", (1, 1, 1))
    monkeypatch.setattr("torchvision.models.resnext101_32x8d", shallow_resnext)
    monkeypatch.setattr(dreamsim, "VisionTransformer", SMALL_VIT)
    monkeypatch.setattr(fpr, "FprNet", SMALL_FPR)
    for constant, value in SMALL_LIPSIM.items():
        monkeypatch.setattr(lipsim, constant, value)
    found = INPUTS[name]
    asset = found.what
    assert isinstance(asset, Asset)

    def take(file: Path) -> Path:
        return import_asset(asset, file, lambda: check_asset(found.users, name))[0]

    right = weights(name)
    wrong = tmp_path / "wrong.pth"
    whole = torch.load(right, weights_only=True)
    content = right.read_bytes()
    for spoil, words in (
        (lambda: wrong.write_bytes(content[: len(content) // 2]), "does not hold weights"),
        (
            lambda: torch.save({"other": torch.zeros(3)}, wrong),
            f"(contains no weights|no line|holds other weights than {name})",
        ),
        (lambda: torch.save(reshaped(whole), wrong), f"holds other weights than {name}: has .* for "),
        (lambda: wrong.write_bytes(b"<html>sign in</html>"), "does not hold weights"),
    ):
        spoil()
        with pytest.raises(UsageError, match=f"wrong.pth was not imported: .*{words}") as caught:
            take(wrong)
        assert "\n" not in str(caught.value)
        assert not (cache_folder() / asset.file).exists()
    assert take(right) == cache_folder() / asset.file
    min(found.users, key=lambda own: len(own.assets())).require()


def reshaped(content: object) -> object:
    """Return the content of a file of weights with one tensor of another shape."""
    if not isinstance(content, dict):
        return content
    tensors = [name for name, value in content.items() if isinstance(value, torch.Tensor) and value.dim() > 1]
    if tensors:
        largest = max(tensors, key=lambda name: content[name].numel())
        return {**content, largest: content[largest][:, :-1]}
    return {key: reshaped(value) for key, value in content.items()}


def test_a_published_digest_of_weights_decides(tmp_path: Path) -> None:
    asset = INPUTS["cnniqa-live"].what
    assert isinstance(asset, Asset)
    (tmp_path / "CNNIQA-LIVE").write_bytes(b"<html>")
    with pytest.raises(
        UsageError, match=r"CNNIQA-LIVE is not cnniqa-live: its sha256 is .*the published one is 79cc404d0da3…"
    ):
        import_asset(asset, tmp_path / "CNNIQA-LIVE", lambda: None)


def test_weights_need_no_folder_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "trained.safetensors"
    file.write_bytes(b"weights")
    asset = Asset(name="acme-quality", file="acme.safetensors", sha256=digest_of(file), licence="MIT", source="here")
    place, _ = import_asset(asset, file, lambda: None, tmp_path / "assets")
    assert place == tmp_path / "assets" / "acme.safetensors"
    assert place.read_bytes() == b"weights"
