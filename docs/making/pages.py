"""Pages of the repository that are also pages of the site, and links between the two."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"contributing": "CONTRIBUTING.md", "security": "SECURITY.md"}
"""Name among the generated pages -> file."""
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?://|#)([^)#\s]+)(#[^)]*)?\)")


def copied(file: str) -> str:
    """Return a page of the repository as it reads on the site."""
    return outward((ROOT / file).read_text(encoding="utf-8"), Path(file))


def outward(text: str, page: Path) -> str:
    """Return the text of a page, named by its path in the repository, with links that hold on the site.

    A link to a page of the site leads there. Any other file of the repository is named by its path.
    """
    places = {file: name for name, file in PAGES.items()}

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        path = Path(os.path.normpath(page.parent / target)).as_posix()
        if path in places:
            return f"[{words}](/generated/{places[path]}.md{anchor})"
        if path.startswith("docs/"):
            return f"[{words}](/{path.removeprefix('docs/')}{anchor})"
        return f"{words} (`{path}`)" if words.strip("`") != path else f"`{path}`"

    return _LINK.sub(link, text)
