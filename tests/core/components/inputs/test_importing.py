"""Files that a person downloaded are imported if they have the published layout, and refused in one line otherwise.

The files are small stand-ins. Every data set is refused cut off, in another layout, and with other shapes;
tests/plugins/test_data_layouts.py imports each as it is published. Every file of weights without a published digest is
imported as it should be, and refused cut off, with other content, and with other shapes.
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
from tests.data_layouts import DATA_LAYOUTS
from tests.standins import FILES, SMALL_ENCODER, SMALL_FPR, SMALL_LIPSIM, SMALL_VIT, shallow_resnext

from imharness.components.inputs.archives import unpack
from imharness.components.inputs.checking import check_asset, check_data
from imharness.components.inputs.importing import digest_of, import_asset, import_data
from imharness.components.inputs.needs import inputs_of
from imharness.components.registry import installed
from imharness.contracts.assets import Asset, cache_folder
from imharness.data import DataSource
from imharness.errors import UsageError
from imharness_iqa.metrics import fpr, koncept512
from imharness_perceptual.metrics import dreamsim, lipsim, r_clip

pytestmark = pytest.mark.usefixtures("empty_places")
INPUTS = inputs_of(entry.component for entry in installed().entries.values())
SETS = [name for name, entry in INPUTS.items() if isinstance(entry.what, DataSource)]
BY_LOADER = [
    name
    for name, entry in INPUTS.items()
    if isinstance(entry.what, Asset)
    and not entry.what.sha256
    and name not in ("mprnet-denoising", "dreamsim-dino-vitb16")
]
"""Files of weights without a published digest: only their loader can tell whether they are right. Two are left out: the
loader of MPRNet is in an extra package, and DreamSim's file is an archive that needs the backbone beside it."""
CPU = torch.device("cpu")


def larger(folder: Path) -> None:
    """Enlarge the last picture."""
    file = sorted(f for f in folder.rglob("*") if f.suffix.lower() in (".png", ".jpg", ".bmp"))[-1]
    Image.open(file).resize((77, 55)).save(file)


def shorter_rows(name: str, folder: Path) -> None:
    """Take the last number of each row away."""
    (file,) = folder.rglob(name)
    lines = file.read_text().splitlines()
    file.write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")


def fewer(pattern: str, folder: Path) -> None:
    """Take some files away."""
    for file in sorted(folder.rglob(pattern))[-3:]:
        file.unlink()


def without(name: str, folder: Path) -> None:
    """Take a folder away."""
    shutil.rmtree(next(folder.rglob(name)))


def other(name: str, content: bytes, folder: Path) -> None:
    """Give a file other content."""
    next(folder.rglob(name)).write_bytes(content)


def no_share(folder: Path) -> None:
    """Write 7 for a share of votes, which lies between 0 and 1."""
    np.save(next(folder.rglob("val/cnn/judge/*.npy")), np.array([[7.0]]))


SPOILT: dict[str, Callable[[Path], None]] = {
    "agiqa-3k": partial(fewer, "*.jpg"),
    "bapps": no_share,
    "caltech101": partial(without, "Faces_easy"),
    "celeba": partial(other, "identity_CelebA.txt", b"000001.jpg\n"),
    "cifar10": partial(other, "test_batch.bin", bytes(3 * 3074)),
    "ch-mnist": partial(shorter_rows, "hmnist_64_64_L.csv"),
    "cifar100": partial(other, "test.bin", bytes(3 * 3073)),
    "imagenette": partial(fewer, "val/*/*.JPEG"),
    "location30": partial(shorter_rows, "bangkok"),
    "mnist": partial(other, "train-images-idx3-ubyte.gz", gzip.compress(b"\0\0\x08\x03" + bytes(12))),
    "nights": partial(other, "data.csv", b"id,votes\n1,8\n"),
    "purchase100": partial(shorter_rows, "dataset_purchase"),
    "stanford-dogs": partial(without, "n02105855-Shetland_sheepdog"),
    "texas100": partial(shorter_rows, "feats"),
}
"""Name of a data set -> function that spoils the files of its stand-in; `larger` does it for all others."""


def smaller(name: str) -> DataSource:
    """Return the source of a data set with the number of images or rows of the stand-in."""
    source = INPUTS[name].what
    assert isinstance(source, DataSource)
    return DATA_LAYOUTS[name].of_stand_in(source)


def imported(name: str, source: DataSource, files: list[Path]) -> Path:
    """Import files as a data set, and return the folder into which they went."""
    return import_data(source, files, lambda: check_data(INPUTS[name].users, source))[0]


def refused(name: str, source: DataSource, files: list[Path]) -> str:
    """Try to import wrong files, check that they leave nothing behind, and return the one line of the error."""
    with pytest.raises(UsageError) as caught:
        imported(name, source, files)
    message = str(caught.value)
    assert "\n" not in message
    assert 20 < len(message) < 500
    assert any(file.name in message for file in files), message
    assert str(cache_folder()) not in message
    assert not cache_folder().exists() or not [f for f in cache_folder().iterdir() if f.name != "features"]
    return message


def test_every_data_set_and_every_file_has_a_way_to_get_it() -> None:
    assert SETS
    for entry in INPUTS.values():
        assert f"harness assets {'get' if entry.downloads else 'import'} {entry.name}" in entry.steps
        assert entry.downloads or "http" in entry.steps


@pytest.mark.parametrize("name", SETS)
def test_wrong_files_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    source, layout = smaller(name), DATA_LAYOUTS[name]
    cut = layout.write(tmp_path / "cut")
    largest = max(cut, key=lambda file: (file.is_dir(), file.stat().st_size))  # a folder, or else the largest archive
    if largest.is_dir():
        fewer("*.bmp", largest)
    else:
        largest.write_bytes(largest.read_bytes()[: largest.stat().st_size * 3 // 5])
    assert any(word in refused(name, source, cut) for word in ("cut off", "missing", "not an archive"))

    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("other/readme.txt", "another data set")
    assert "has no " in refused(name, source, [tmp_path / "other.zip"])

    refused(name, source, layout.write(tmp_path / "shapes", SPOILT.get(name, larger)))


def test_a_wrong_file_leaves_the_right_one_where_it_was(tmp_path: Path) -> None:
    source, layout = smaller("location30"), DATA_LAYOUTS["location30"]
    data_folder = imported("location30", source, layout.write(tmp_path / "right"))
    right = (data_folder / "bangkok").read_bytes()
    with pytest.raises(UsageError, match="the published ones have"):
        imported("location30", source, layout.write(tmp_path / "wrong", SPOILT["location30"]))
    assert (data_folder / "bangkok").read_bytes() == right


def test_a_published_digest_is_asked_for(tmp_path: Path) -> None:
    wrong = tmp_path / "cifar-100-binary.tar.gz"
    wrong.write_bytes(b"<html>")
    source = INPUTS["cifar100"].what
    assert isinstance(source, DataSource)
    with pytest.raises(UsageError, match=r"its sha256 is .*, not 58a81ae192c2"):
        import_data(source, [wrong], lambda: None)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("../../evil", "leads outside"),
        ("/etc/evil", "leads outside"),
        ("a\\..\\b", "leads outside"),
        ("a" * 301, "one plain line of at most 300 characters"),
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
    whole, third = io.BytesIO(), 2 * (512 + 1024)  # where the third file begins: 700 bytes are padded to 1024
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
    content[third + 3] ^= 0xFF if kind == "damaged header" else 0  # in the name of the third file
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
    monkeypatch.setattr(r_clip, "ImageEncoder", SMALL_ENCODER)
    monkeypatch.setattr(fpr, "FprNet", SMALL_FPR)
    for constant, value in SMALL_LIPSIM.items():
        monkeypatch.setattr(lipsim, constant, value)
    entry = INPUTS[name]
    asset = entry.what
    assert isinstance(asset, Asset)

    def take(file: Path) -> Path:
        return import_asset(asset, file, lambda: check_asset(entry.users, name))[0]

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
    min(entry.users, key=lambda user: len(user.assets())).require()  # the component that needs fewest other files


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
    path, _ = import_asset(asset, file, lambda: None, tmp_path / "assets")
    assert path == tmp_path / "assets" / "acme.safetensors"
    assert path.read_bytes() == b"weights"
