"""`harness annotate`: people judge reconstructed or defended images in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from imharness.commands import Choice, Group, Share, assets_option, json_option, limit_option, site_option, store_option
from imharness_annotation import CUTOFF

if TYPE_CHECKING:
    from imharness_annotation.book import Book, Question
    from imharness_annotation.sources import Rebuilt

FILE = click.option(
    "--file",
    type=click.Path(path_type=Path),
    default="annotations.sqlite",
    show_default=True,
    metavar="FILE",
    help="Where questions and votes are kept.",
)
RECONSTRUCTION, IQA = "harness/reconstruction", "harness/iqa"
VOTES = {"class": 5, "pair": 5, "better": 10}
LOOPBACK = "127.0.0.1"
KEPT_S = 75
"""How long a connection stays open while a person thinks, s; a shorter time would cut off answers on their way."""
SERVER = ("starlette", "uvicorn", "itsdangerous")
"""The modules of the extra `annotate`."""


@click.group(cls=Group, invoke_without_command=True)
@click.option("--kind", type=Choice(["class", "pair", "better"]), help="What to ask. Default: what FILE asks.")
@FILE
@store_option()
@click.option(
    "--attack",
    "attacks",
    multiple=True,
    metavar="NAME",
    help="Use only images of this attack; may be given several times.",
)
@click.option(
    "--defense",
    "defenses",
    multiple=True,
    metavar="NAME",
    help="With better: compare this defense; may be given several times.",
)
@click.option("--metric", metavar="NAME", help="With better: the metric that was attacked. Default: the first.")
@limit_option()
@click.option("--votes", type=click.IntRange(1), metavar="N", help="Votes per question. Default: 5; with better: 10.")
@click.option(
    "--cutoff",
    type=Share(),
    default=CUTOFF,
    show_default=True,
    metavar="SHARE",
    help="Share of decoys that a person must answer right; votes of others do not count.",
)
@click.option(
    "--host",
    default=LOOPBACK,
    show_default=True,
    metavar="ADDRESS",
    help="Address to serve at; other machines can reach any address but the default.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8571,
    show_default=True,
    metavar="PORT",
    help="Port to serve at; 0 picks a free one.",
)
@assets_option()
@click.pass_context
def annotate(
    ctx: click.Context,
    kind: str | None,
    file: Path,
    store: str,
    attacks: tuple[str, ...],
    defenses: tuple[str, ...],
    metric: str | None,
    limit: int | None,
    votes: int | None,
    cutoff: float,
    host: str,
    port: int,
    assets: Path | None,
) -> None:
    """Serve a page on which people judge images of a run; without --kind, continue with the questions in FILE.

    class: what does a reconstruction show? pair: does it show the original? better: which defended image is better?
    """
    if ctx.invoked_subcommand is not None:
        return
    from imharness.commands import add_assets, console

    _require_server()
    from imharness_annotation.app import application
    from imharness_annotation.book import Book

    if assets is not None:
        add_assets(assets)
    if kind is None and not file.exists():
        raise click.UsageError(f"{file} does not exist; say what to ask with --kind class, pair or better.")
    book = Book(file)
    if kind is not None:
        asked = questions_for(kind, store, attacks, defenses, metric, limit)
        count = book.fill(kind, votes or VOTES[kind], asked, cutoff)
        console.say(f"{count} questions in {file}, {book.planned} votes each; for votes to count: {book.demand}")
    import uvicorn

    if host != LOOPBACK:
        console.warn(f"serving {host}: anybody who can reach this machine can vote; there are no passwords.")
    console.say(f"judge at http://{host}:{port}/ and stop with Ctrl-C; every answer is kept in {file}")
    hosts = [LOOPBACK, "localhost"] if host == LOOPBACK else ["*"]
    uvicorn.run(
        application(book, hosts),
        host=host,
        port=port,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=KEPT_S,
    )


@annotate.command()
@FILE
@click.option(
    "--csv", "csv_file", type=click.Path(path_type=Path), required=True, metavar="FILE", help="File to write."
)
def export(file: Path, csv_file: Path) -> None:
    """Write every vote as one line of a CSV file."""
    from imharness.commands import console
    from imharness_annotation.outcome import write_csv

    votes = _book(file).votes()
    write_csv(csv_file, votes)
    console.say(f"{len(votes)} votes in {csv_file}")


@annotate.command()
@FILE
@json_option()
def report(file: Path, as_json: bool) -> None:
    """Print majorities, agreement and decoys; for `better`, the ranking by votes."""
    from imharness.commands import console
    from imharness.stats import NotTestable
    from imharness_annotation.outcome import decoy_accuracy, fleiss_kappa, majorities, ranking

    book = _book(file)
    every, votes, planned = book.votes(), book.counted(), book.planned
    decoys, out = decoy_accuracy(every), book.left_out()
    facts: dict[str, object] = {
        "kind": book.about("kind"),
        "votes": len(every),
        "votes_counted": len(votes),
        "votes_planned": planned,
        "needed_to_count": book.demand,
        "people": len(decoys),
        "people_left_out": len(out),
        "people_without_decoys": sum(not shown for _, shown in decoys.values()),
    }
    better = facts["kind"] == "better"
    for name, recognised in (("fleiss_kappa", False), *(() if better else (("recognised_kappa", True),))):
        try:
            kappa, questions, raters = fleiss_kappa(votes, recognised=recognised)
            facts |= {name: kappa, "kappa_questions": questions, "kappa_votes_each": raters}
        except NotTestable as error:
            facts[name] = str(error)
    facts["decoys"] = {
        name: {"right": right, "shown": shown, "left_out": name in out} for name, (right, shown) in decoys.items()
    }
    if better:
        try:
            facts["ranking"] = [
                {"entry": name, "strength": found.value, "low": found.low, "high": found.high, "images": found.n}
                for name, found in ranking(votes, planned)
            ]
        except NotTestable as error:
            facts["ranking"] = str(error)
    else:
        verdicts = majorities(votes, planned)
        waiting = book.count(decoy=False) - len(verdicts)
        facts |= {"judged": len(verdicts), "waiting": waiting, "recognised": sum(v.recognised for v in verdicts)}
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return
    single = [(name, value) for name, value in facts.items() if not isinstance(value, dict | list)]
    console.table("Votes", ["figure", "value"], [(n, f"{v:.3f}" if isinstance(v, float) else v) for n, v in single])
    lines = [(n, r, t, "no" if n in out else "yes") for n, (r, t) in decoys.items()]
    console.table("Decoys", ["annotator", "right", "of", "counts"], lines)
    if isinstance(facts.get("ranking"), list):
        rows = [tuple(f"{v:.3f}" if isinstance(v, float) else v for v in r.values()) for r in facts["ranking"]]  # type: ignore[attr-defined]
        console.table("Which is better", ["entry", "log-strength", "low", "high", "images"], rows)


@annotate.command("import")
@FILE
@store_option()
@site_option("site")
def import_votes(file: Path, store: str, site: Path) -> None:
    """Put majorities about reconstructions into the results, where they replace the classifier's answers.

    Only questions with the planned number of votes are taken, and only the votes of people who passed the decoys.
    """
    from imharness.commands import add_external, build_site, console
    from imharness.errors import UsageError
    from imharness_annotation.outcome import majorities

    book = _book(file)
    verdicts, out = majorities(book.counted(), book.planned), len(book.left_out())
    if not verdicts:
        raise UsageError(
            f"{file} has no reconstruction with {book.planned} votes that count; the decoys leave {out} people out."
        )
    rows = {name: [v.facts[name] for v in verdicts] for name in ("dataset", "attack", "model", "defense", "name")}
    add_external(store, RECONSTRUCTION, {**rows, "recognised": [float(v.recognised) for v in verdicts]}, file.stem)
    build_site(store, site)
    console.say(f"{len(verdicts)} majorities are in the tables: {site / 'reconstruction.html'}")
    console.say(f"for votes to count: {book.demand}; {out} people are left out.")


def _require_server() -> None:
    """Raise an error that names the extra when a library that serves the page is missing."""
    missing = [name for name in SERVER if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"harness annotate needs {', '.join(missing)}; get it with: pip install 'image-privacy-harness[annotate]'"
        )


def _book(file: Path) -> Book:
    from imharness.errors import UsageError
    from imharness_annotation.book import Book

    if not file.is_file():
        raise UsageError(f"{file} does not exist; `harness annotate --kind class` makes it.")
    return Book(file)


def questions_for(
    kind: str, store: str, attacks: tuple[str, ...], defenses: tuple[str, ...], metric: str | None, limit: int | None
) -> Iterator[Question]:
    """Yield the questions of a kind about what a store has; raises `UsageError` when it has nothing to ask about."""
    from imharness.errors import UsageError
    from imharness_annotation.sources import class_questions, pair_questions

    if kind == "better":
        return _better(store, attacks, defenses, metric, limit)
    groups = list(_rebuilt(store, attacks, limit))
    if not groups:
        raise UsageError(f"store {store} has no reconstructions{' of these attacks' if attacks else ''}.")
    return class_questions(groups) if kind == "class" else pair_questions(groups)


def _rebuilt(store: str, attacks: tuple[str, ...], limit: int | None) -> Iterator[Rebuilt]:
    from imharness.commands import component, find, finished, place

    wanted = {component("attack", name).info.id for name in attacks}
    sets = {}
    for task in finished(store, RECONSTRUCTION, "reconstruct"):
        if wanted and component("attack", task.labels["attack"]).info.id not in wanted:
            continue
        label, images = task.labels["dataset"], task.output.arrays["images"]
        if label not in sets:
            sets[label] = find("dataset", label).build(place("cpu"))  # type: ignore[attr-defined]
        count = min(len(images), limit or len(images))
        facts = {role: task.labels[role] for role in ("dataset", "attack", "model", "defense")}
        yield facts, images[:count], sets[label]


def _better(
    store: str, attacks: tuple[str, ...], defenses: tuple[str, ...], metric: str | None, limit: int | None
) -> Iterator[Question]:
    import torch

    from imharness.commands import component, context, find, finished
    from imharness.errors import UsageError
    from imharness_annotation.sources import better_questions

    if len(attacks) != 1 or len(defenses) < 2:
        raise UsageError(
            "--kind better compares defenses against one attack: add --attack NAME and two or more --defense NAME."
        )
    attack, guards = component("attack", attacks[0]).info.id, [find("defense", name) for name in defenses]
    tasks = [t for t in finished(store, IQA, "attack") if component("attack", t.labels["attack"]).info.id == attack]
    chosen = [t for t in tasks if metric is None or t.labels["metric"] == component("metric", metric).label]
    if not chosen:
        raise UsageError(f"store {store} has no images that {attack} attacked; run `harness run --track iqa` first.")
    task = chosen[0]
    step = context({"dataset": find("dataset", task.labels["dataset"])})
    clean = step.images()
    stack = next(a for name, a in task.output.arrays.items() if name.startswith("images-"))
    count = min(len(stack), limit or len(stack))
    attacked = torch.from_numpy(stack[:count].copy()).float() / 255
    names = clean.names[:count]
    defended = {}
    for guard in guards:
        built = context({"defense": guard}).build("defense")
        with torch.no_grad():
            defended[guard.label] = built(attacked, step.rng(names, "annotation", guard.label)).cpu()
    facts = {role: task.labels[role] for role in ("dataset", "attack", "metric")}
    return better_questions(facts, defended, clean.load(list(range(count))), names)
