"""Say what is wrong with the files of a wheel and a source distribution in a folder; exit 1 if anything is.

Every file of the packages that the repository holds must be in both, and nothing else may be in the wheel but the pages
of the documentation that pyproject.toml puts there. Where HARNESS_REPOSITORY says where the project is kept, the wheel
must say it, too, and its README may have no relative link.
"""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOTS = ("core/", "plugins/", "leaderboard/", "submissions/imharness_submissions/")
"""What the wheel is made of; the name of a package follows the first folder."""


def main() -> None:
    """Compare both with what git knows."""
    folder = Path(sys.argv[1])
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    tracked = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    ours = {name for name in tracked if name.startswith(ROOTS) and Path(name).is_file()}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
    with tarfile.open(source) as archive:
        shipped = {name.partition("/")[2] for name in archive.getnames()}
    included = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    expected = {name.partition("/")[2] for name in ours} | {*included["wheel"]["force-include"].values()}
    wrong = {
        "missing in the wheel": expected - packed,
        "not ours, in the wheel": packed - expected,
        "missing in the source distribution": (ours | {"LICENSE", "README.md", "CITATION.cff"}) - shipped,
    }
    repository = os.environ.get("HARNESS_REPOSITORY", "")
    if repository and f"Project-URL: Repository, {repository}\n" not in metadata:
        wrong["not in the metadata"] = {repository}
    if repository:
        wrong["relative in the README"] = set(re.findall(r"\]\((?!https?://|#)([^)]+)\)", metadata))
    lines = [f"{what}: {', '.join(sorted(names))}" for what, names in wrong.items() if names]
    sys.exit("\n".join(lines) or None)


if __name__ == "__main__":
    main()
