"""Write the date of a release into CITATION.cff and CHANGELOG.md, or check that both say the same.

    python .ci/dated.py            what is not released has no date, and what is has one: the same in both files
    python .ci/dated.py DATE       release today's version on this day, as 2026-12-01 and in no other form

What is not released yet stands under "## Unreleased" in the changelog, and CITATION.cff has no `date-released` then.
"""

import datetime
import re
import sys
from pathlib import Path

OPEN = "## Unreleased"
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
RELEASED = re.compile(r"^date-released: (\S+)$", re.M)


def problem(citation: str, changelog: str) -> str:
    """Return what is wrong with the two files, empty where they agree."""
    version = re.search(r"^version: (\S+)$", citation, re.M)
    if version is None:
        return "CITATION.cff has no version"
    heading = re.search(rf"^## {re.escape(version[1])} \((\S+)\)$", changelog, re.M)
    date = RELEASED.search(citation)
    if date is not None and heading is None:
        return f"CITATION.cff says that {version[1]} was released on {date[1]}, and CHANGELOG.md has no such version"
    if date is None and heading is not None:
        return f"CHANGELOG.md says that {version[1]} was released on {heading[1]}, and CITATION.cff has no date"
    if date is not None and heading is not None and date[1] != heading[1]:
        return f"CITATION.cff says {date[1]}, and CHANGELOG.md {heading[1]}"
    if date is None and not changelog.startswith(f"# Changelog\n\n{OPEN}\n"):
        return f"CHANGELOG.md does not begin with {OPEN!r}, and {version[1]} is not released"
    return ""


def released(citation: str, changelog: str, date: str) -> tuple[str, str]:
    """Return both files with the date of the release of the version that CITATION.cff names."""
    if not DAY.fullmatch(date):
        raise ValueError(f"{date!r} is no date as 2026-12-01")
    try:
        datetime.date.fromisoformat(date)
    except ValueError:
        raise ValueError(f"{date} is no day of the calendar") from None
    if RELEASED.search(citation):
        raise ValueError("CITATION.cff has a date already: this version was released, or its number was not raised")
    version = re.search(r"^version: (\S+)$", citation, re.M)
    if version is None or f"\n{OPEN}\n" not in changelog:
        raise ValueError(f"CITATION.cff needs a version and CHANGELOG.md the heading {OPEN!r}")
    dated = citation.replace(version[0], f"{version[0]}\ndate-released: {date}", 1)
    return dated, changelog.replace(f"\n{OPEN}\n", f"\n## {version[1]} ({date})\n", 1)


def main() -> None:
    """Do what the command line asks; exit 1 with a line where that cannot be."""
    files = [Path("CITATION.cff"), Path("CHANGELOG.md")]
    citation, changelog = (file.read_text() for file in files)
    try:
        if len(sys.argv) > 1:
            citation, changelog = released(citation, changelog, sys.argv[1])
    except ValueError as error:
        sys.exit(str(error))
    wrong = problem(citation, changelog)
    if wrong:
        sys.exit(wrong)
    for file, text in zip(files, (citation, changelog), strict=True):
        file.write_text(text)


if __name__ == "__main__":
    main()
