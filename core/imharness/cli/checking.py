"""`harness plugins new` and `harness plugins check`: write a new package, and run the conformance suite."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.cli import console
from imharness.cli.options import json_option, seed_option
from imharness.contracts.component import KINDS
from imharness.errors import HarnessError, UsageError, did_you_mean

if TYPE_CHECKING:
    from imharness.contracts.component import Component
    from imharness.testing import CheckResult


@click.command()
@click.argument("kind", metavar="KIND")
@click.argument("name", metavar="OWNER/METHOD")
@click.option(
    "--dir",
    "parent",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    show_default=True,
    metavar="FOLDER",
    help="Folder in which to create the package's folder.",
)
@click.option(
    "--author", default="The author", show_default=True, metavar="TEXT", help="Author in the package's metadata."
)
@click.option(
    "--package",
    is_flag=True,
    help="Write a folder instead of one module; all files in it, such as weights, are in the wheel.",
)
def new(kind: str, name: str, parent: Path, author: str, package: bool) -> None:
    """Write a complete small package: a component with parameters, a test, README and licence.

    KIND is attack, defense, metric, evaluator or another; a wrong one lists them all. OWNER/METHOD is the id of the
    component, such as acme/median-smoothing.
    """
    from imharness.testing.scaffold import write_package

    folder = write_package(kind, name, parent, author, package=package)
    console.say(f"{folder}: pip install -e '{folder}[test]', then run pytest there; its README says how to run it")


@click.command()
@click.argument("names", metavar="NAME|FOLDER...", nargs=-1, required=True)
@seed_option("the inputs", default=None)
@json_option()
def check(names: tuple[str, ...], seed: int | None, as_json: bool) -> None:
    """Run the conformance suite on installed components, or on a package's folder; exit with 1 if a check fails.

    NAME is a component or an installed package. The code runs in this process, so check only code that you trust.
    """
    import secrets

    from imharness.testing import check_component
    from imharness.testing.importing import check_imports

    drawn = secrets.randbelow(2**31) if seed is None else seed
    components = [component for name in names for component in _named(name)]
    modules = sorted({type(component).__module__ for component in components})
    roots = [path for name in names for path in _roots(name)]
    with console.progress("checking", visible=not as_json) as advance:
        results_of_imports: list[CheckResult] = check_imports(modules, roots)
        groups = [
            (module, [result for result in results_of_imports if result.component == module]) for module in modules
        ]
        for number, component in enumerate(components):
            groups.append((component.label, check_component(component, drawn)))
            advance(number + 1, len(components))
    all_results = [result for _, results in groups for result in results]
    failed = [result for result in all_results if result.status == "failed"]
    if as_json:
        console.emit({"seed": drawn, "checks": [vars(result) for result in all_results]})
    else:
        for label, results in groups:
            rows = [(result.check, result.status, result.message) for result in results]
            console.table(label, ["check", "", "what was found"], rows)
        statuses = [result.status for result in all_results]
        counts = {status: statuses.count(status) for status in ("passed", "failed", "skipped")}
        console.say(
            ", ".join(f"{n} {status}" for status, n in counts.items()) + f"; --seed {drawn} draws the same inputs"
        )
    sys.exit(1 if failed else 0)


def _roots(name: str) -> list[Path]:
    """Return the folders with the modules of a package's folder."""
    folder = Path(name).resolve()
    return [path for path in (folder, folder / "src") if path.is_dir()] if (folder / "pyproject.toml").is_file() else []


def _named(name: str) -> list[Component]:
    """Return the components that a label, an id, a distribution or a folder means."""
    from imharness.components.registry import installed

    if (Path(name) / "pyproject.toml").is_file():
        from imharness.testing.report import components_in

        return components_in(Path(name))
    registry = installed()
    of_package = [e.component for e in registry.entries.values() if e.provenance.distribution == name]
    if of_package:
        return of_package
    components: list[Component] = []
    for kind in KINDS:
        try:
            components += registry.find(kind, name)
        except HarnessError:
            continue
    if not components:
        ids = [entry.component.info.id for entry in registry.entries.values()]
        folder = name.replace("/", "-")
        hint = (
            f" The folder {folder} holds a package: pip install -e {folder}, or give the folder."
            if (Path(folder) / "pyproject.toml").is_file()
            else did_you_mean(name, ids)
        )
        raise UsageError(
            f"{name!r} is neither a component nor an installed package nor a folder with a pyproject.toml.{hint}"
        )
    return components
