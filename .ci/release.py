"""Take the files that name a version from one state to the next, or check that they agree.

    python .ci/release.py                 say what does not agree, and exit 1
    python .ci/release.py dated DATE      release the version to come on this day, as 2026-12-01 and in no other form
    python .ci/release.py notes           print what the changelog says of the version that was released
    python .ci/release.py next VERSION    back to development: the version to come after the one that was released

There are two states. The version to come stands under "## Unreleased" in CHANGELOG.md, and CITATION.cff has no
`date-released`. A released version stands first in CHANGELOG.md, with the day that CITATION.cff names. In both states
CITATION.cff and version.py name the same version.
"""

import datetime
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

CITATION, CHANGELOG, VERSION = Path("CITATION.cff"), Path("CHANGELOG.md"), Path("core/imharness/results/version.py")
TOP, OPEN = "# Changelog\n\n", "## Unreleased\n"
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
NUMBER = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){2}")
CITED = re.compile(r"^version: (\S+)$", re.M)
RELEASED = re.compile(r"^date-released: (\S+)\n", re.M)
DECLARED = re.compile(r'^__version__ = "(.*)"$', re.M)


@dataclass(frozen=True)
class Files:
    """The texts of the three files, which agree: `day` is empty in the state of a version to come."""

    citation: str
    changelog: str
    module: str

    @property
    def version(self) -> str:
        """The version that the files name."""
        return _only(DECLARED, self.module, VERSION)

    @property
    def day(self) -> str:
        """The day on which it was released."""
        released = RELEASED.search(self.citation)
        return released[1] if released else ""

    def check(self) -> None:
        """Raise `ValueError` with what does not agree."""
        if (cited := _only(CITED, self.citation, CITATION)) != self.version:
            raise ValueError(f"{CITATION} names {cited}, and {VERSION} {self.version}")
        expected = f"## {self.version} ({self.day})\n" if self.day else OPEN
        if not self.changelog.startswith(TOP + expected):
            reason = f"{self.version} was released on {self.day}" if self.day else f"{self.version} is not released"
            raise ValueError(f"{CHANGELOG} does not begin with {expected.strip()!r}, but {CITATION} says: {reason}")

    def dated(self, day: str) -> "Files":
        """Return the files of the version to come, released on a day."""
        if not DAY.fullmatch(day):
            raise ValueError(f"{day!r} is no date as 2026-12-01")
        try:
            datetime.date.fromisoformat(day)
        except ValueError:
            raise ValueError(f"{day} is no day of the calendar") from None
        if self.day:
            raise ValueError(f"{self.version} was released on {self.day}; name the version to come: `next VERSION`")
        line = f"version: {self.version}\n"
        return replace(
            self,
            citation=self.citation.replace(line, f"{line}date-released: {day}\n", 1),
            changelog=self.changelog.replace(OPEN, f"## {self.version} ({day})\n", 1),
        )

    def notes(self) -> str:
        """Return the section of the released version, without its heading."""
        if not self.day:
            raise ValueError(f"{self.version} is not released: `dated DATE` comes first")
        section = self.changelog.removeprefix(f"{TOP}## {self.version} ({self.day})\n")
        return section.partition("\n## ")[0].strip() + "\n"

    def next(self, version: str) -> "Files":
        """Return the files of a later version that is to come."""
        if not NUMBER.fullmatch(version):
            raise ValueError(f"{version!r} is no version as 0.2.0")
        if not self.day:
            raise ValueError(f"{self.version} is not released: `dated DATE` comes first")
        if [*map(int, version.split("."))] <= [*map(int, self.version.split("."))]:
            raise ValueError(f"{version} does not come after {self.version}")
        return Files(
            citation=RELEASED.sub("", CITED.sub(f"version: {version}", self.citation)),
            changelog=self.changelog.replace(TOP, f"{TOP}{OPEN}\nNothing yet.\n\n", 1),
            module=DECLARED.sub(f'__version__ = "{version}"', self.module),
        )


def _only(pattern: re.Pattern[str], text: str, path: Path) -> str:
    matches = pattern.findall(text)
    if len(matches) != 1 or not NUMBER.fullmatch(matches[0]):
        raise ValueError(f"{path} must name one version, as 0.2.0; it names {', '.join(matches) or 'none'}")
    return str(matches[0])


def main() -> None:
    """Do what the command line asks; exit 1 with a line where that cannot be."""
    paths = (CITATION, CHANGELOG, VERSION)
    try:
        files = Files(*(path.read_text(encoding="utf-8") for path in paths))
        files.check()
        match sys.argv[1:]:
            case []:
                return
            case ["dated", day]:
                files = files.dated(day)
            case ["notes"]:
                sys.stdout.write(files.notes())
                return
            case ["next", version]:
                files = files.next(version)
            case _:
                raise ValueError(f"{__doc__}")
        files.check()
    except ValueError as error:
        sys.exit(str(error))
    for path, text in zip(paths, (files.citation, files.changelog, files.module), strict=True):
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
