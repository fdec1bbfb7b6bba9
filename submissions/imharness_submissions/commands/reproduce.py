"""`harness reproduce`: computes tasks again and compares them with the stored numbers."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from imharness.cli import console
from imharness.cli.options import Share, device_option, json_option, seed_option, store_option
from imharness.cli.secret import secret_option
from imharness.errors import HarnessError, UsageError


@click.command()
@click.argument("entry", required=False)
@click.option("--canaries", is_flag=True, help="Compute the tasks whose numbers are known, and compare.")
@store_option("address")
@click.option(
    "--sample", type=click.IntRange(1), default=8, show_default=True, metavar="N", help="How many tasks of the entry."
)
@click.option(
    "--tolerance",
    type=Share(),
    default=1e-3,
    show_default=True,
    metavar="SHARE",
    help="Greatest difference, as a share of a column's largest number, or of 1 if that is larger.",
)
@seed_option("the sample of tasks")
@device_option()
@secret_option
@click.option("--trust", is_flag=True, help="Run a submission without a sandbox.")
@json_option("; canaries are printed as in their file")
def reproduce(
    entry: str | None,
    canaries: bool,
    address: str,
    sample: int,
    tolerance: float,
    seed: int,
    device: str,
    secret: Path | None,
    trust: bool,
    as_json: bool,
) -> None:
    """Compute tasks of ENTRY again from its pinned package, and compare; exit 1 when the numbers differ.

    ENTRY is a submission of the store, or an installed component. The outcome is written into the ledger and shown on
    the site.
    """
    from imharness.running.device import resolve_devices

    resolved_device = resolve_devices([device])[0]
    if canaries:
        _canaries(resolved_device, as_json)
        return
    if entry is None:
        raise UsageError("say what to reproduce: ENTRY or --canaries.")
    from imharness.planning.secret import read_seed
    from imharness.results.store import Store
    from imharness_submissions.reproducing import reproduce as reproduce_tasks

    with console.progress("reproducing", visible=not as_json) as advance:
        results = reproduce_tasks(
            entry,
            Store(address),
            sample=sample,
            tolerance=tolerance,
            seed=seed,
            device=resolved_device,
            trusted=trust,
            advance=advance,
            secret=read_seed(secret) if secret is not None else "",
        )
    if as_json:
        console.emit({"tasks": [one.model_dump(mode="json") for one in results]})
    else:
        rows = [
            (
                one.task,
                "-" if one.difference is None else f"{one.difference:.2g}",
                "pass" if one.holds else "FAIL",
                one.why,
            )
            for one in results
        ]
        console.table(f"{entry}, tolerance {tolerance:g}", ["task", "largest difference", "", ""], rows)
    sys.exit(0 if all(one.holds for one in results) else 1)


def _canaries(device: str, as_json: bool) -> None:
    from imharness_submissions.reproducing import canaries, recorded, sing

    rows, measured, drifted = [], [], False
    with console.progress("canaries", visible=not as_json) as advance:
        stored_canaries = canaries()
        for number, canary in enumerate(stored_canaries):
            try:
                now, drift = sing(canary, device)
            except HarnessError as error:
                raise HarnessError(f"ALARM: {error}") from None
            measured.append(now)
            drifted |= drift > canary.tolerance
            verdict = "pass" if drift <= canary.tolerance else "ALARM: drifted"
            rows.append((canary.name, f"{drift:.2g}", f"{canary.tolerance:g}", verdict))
            advance(number + 1, len(stored_canaries))
    if as_json:
        click.echo(recorded(measured), nl=False)
    else:
        console.table("Canaries", ["canary", "largest difference", "tolerance", ""], rows)
    sys.exit(1 if drifted else 0)
