"""`harness docs`: open the documentation that was built on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from imharness.errors import UsageError

BUILT = Path("docs/_build/html/index.html")
HOW = "In a copy of the repository: pip install -e '.[docs]' && sphinx-build -b html docs docs/_build/html"


@click.command()
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def docs(no_browser: bool) -> None:
    """Open the documentation that was built here, or say how to build it."""
    page = next((p for folder in (Path.cwd(), *_checkout()) if (p := folder / BUILT).is_file()), None)
    if page is None:
        raise UsageError(f"the documentation is not built here. {HOW}")
    click.echo(page.resolve().as_uri())
    if not no_browser:
        click.launch(page.resolve().as_uri())


def _checkout() -> list[Path]:
    """Return the copy of the repository that this code runs from, if there is one."""
    folder = Path(__file__).resolve().parents[2]
    return [folder] if (folder / "docs" / "conf.py").is_file() else []
