"""The generated pages of the site: what the code, the plugins and the embedded data say of themselves.

Nothing here is kept in the repository: `conf.py` writes the folder docs/generated before each build, so that no number
and no name can go stale.
"""

import shutil
from pathlib import Path

from making import cards, commands, formats, modules, pictures
from making.pages import PAGES, copied, outward

__all__ = ["outward", "write"]


def write(folder: Path) -> None:
    """Write all generated pages into a folder that is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    texts = {**commands.pages(), **formats.pages(), **modules.pages(), **cards.pages()}
    texts |= {name: copied(file) for name, file in PAGES.items()}
    texts["gallery"] = pictures.page(folder)
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
