"""`harness annotate`: people judge reconstructed or defended images in a browser."""

from __future__ import annotations

from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from imharness.commands import Choice, Group, Share, assets_option, json_option, limit_option, site_option, store_option
from imharness_annotation import CUTOFF, CUTOFFS, Wanted

if TYPE_CHECKING:
    from imharness_annotation.book import Book

FILE = click.option(
    "--file",
    type=click.Path(path_type=Path),
    default="annotations.sqlite",
    show_default=True,
    metavar="FILE",
    help="Where questions and votes are kept.",
)
KINDS = ("class", "pair", "better", "2afc", "jnd")
VOTES = {"class": 5, "pair": 5, "better": 10, "2afc": 5, "jnd": 3}
PAIRS = 160
LOOPBACK = "127.0.0.1"
"""The default number of pairs of patches, and of questions for each person with jnd."""
KEPT_S = 75
"""How long a connection stays open while a person thinks, s; a shorter time would cut off answers on their way."""
SERVER = ("starlette", "uvicorn", "itsdangerous")
"""The modules of the extra `annotate`."""


@click.group(cls=Group, invoke_without_command=True)
@click.option("--kind", type=Choice(KINDS), help="What to ask. Default: what FILE asks.")
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
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="With better: a metric that was attacked; several times for several. Default: all.",
)
@click.option("--strength", default="", metavar="NAME", help="With better: of the attack. Default: the strongest.")
@click.option(
    "--attacker",
    type=Choice(["adaptive", "fixed"]),
    default="adaptive",
    show_default=True,
    help="With better: show each defense the images of attacks that know it, or the same images as all others.",
)
@click.option(
    "--published",
    is_flag=True,
    help="With class: ask about originals, too, with the classes that the run's judge finds most likely.",
)
@click.option(
    "--dataset",
    metavar="NAME",
    help="With 2afc and jnd, which need it: the images whose patches are distorted. Default: none.",
)
@click.option(
    "--pairs",
    type=click.IntRange(1),
    default=PAIRS,
    show_default=True,
    metavar="N",
    help="With 2afc and jnd: how many.",
)
@click.option(
    "--each", type=click.IntRange(1), metavar="N", help="Questions for each person. Default: all; with jnd: 160."
)
@limit_option()
@click.option(
    "--votes", type=click.IntRange(1), metavar="N", help="Votes per question. Default: 5; with better 10, jnd 3."
)
@click.option(
    "--cutoff",
    type=Share(),
    metavar="SHARE",
    help="Share of decoys that a person must answer right; votes of others do not count. Default: 80 %; with 2afc "
    "14 of 15, with jnd 85 %.",
)
@click.option(
    "--host",
    default=LOOPBACK,
    show_default=True,
    metavar="ADDRESS",
    help="Address to serve at; other machines can reach any address but those of this machine alone.",
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
    metrics: tuple[str, ...],
    strength: str,
    attacker: Literal["adaptive", "fixed"],
    published: bool,
    dataset: str | None,
    pairs: int,
    each: int | None,
    limit: int | None,
    votes: int | None,
    cutoff: float | None,
    host: str,
    port: int,
    assets: Path | None,
) -> None:
    """Serve a page on which people judge images; without --kind, continue with the questions in FILE.

    \b
    class:  what does a reconstruction of a run show?
    pair:   does a reconstruction show what the original shows?
    better: which defended image of a run is better, beside the original?
    2afc:   which of two distorted patches is nearer to the original?
    jnd:    are two patches that are shown for a second each the same?
    """
    if ctx.invoked_subcommand is not None:
        return
    from imharness.commands import console

    _require_server()
    from imharness_annotation.app import application
    from imharness_annotation.book import Book

    if assets is not None:
        from imharness.commands import add_assets

        add_assets(assets)
    if kind is None and not file.exists():
        raise click.UsageError(f"{file} does not exist; say what to ask with --kind {', '.join(KINDS)}.")
    if kind in ("2afc", "jnd") and not dataset:
        raise click.UsageError(f"--kind {kind} shows patches of photographs: add --dataset NAME.")
    book = Book(file)
    if kind is not None:
        from imharness_annotation.asking import patches_for, questions_for

        wanted = Wanted(attacks, defenses, metrics, strength, attacker, limit)
        of_run = not dataset or kind not in ("2afc", "jnd")
        questions = questions_for(kind, store, wanted, published) if of_run else patches_for(kind, str(dataset), pairs)
        cutoff_share = CUTOFFS.get(kind, CUTOFF) if cutoff is None else cutoff
        count = book.fill(kind, votes or VOTES[kind], questions, cutoff_share, each or (PAIRS if kind == "jnd" else 0))
        console.say(f"{count} questions in {file}, {book.planned} votes each; for votes to count: {book.demand}")
    import uvicorn

    address, local = f"[{host}]" if ":" in host else host, _is_local(host)
    if not local:
        console.warn(f"serving {host}: anybody who can reach this machine can vote; there are no passwords.")
    console.say(f"judge at http://{address}:{port}/ and stop with Ctrl-C; every answer is kept in {file}")
    hosts = [host, address, LOOPBACK, "localhost"] if local else ["*"]
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
    from imharness.leaderboard import NotTestable
    from imharness_annotation.outcome import BAPPS, decoy_accuracy, fleiss_kappa, judged_patches, majorities, ranking

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
        "people_without_decoys": sum(not total for _, total in decoys.values()),
    }
    better, about_patches = facts["kind"] == "better", facts["kind"] in BAPPS
    kappas = {"fleiss_kappa": ""}  # name of the figure -> prefix of the names of its counts
    if not better and not about_patches:
        kappas["recognised_kappa"] = "recognised_"
    for name, prefix in kappas.items():
        try:
            kappa, questions, raters = fleiss_kappa(votes, recognised=name == "recognised_kappa")
            facts |= {name: kappa, f"{prefix}kappa_questions": questions, f"{prefix}kappa_votes_each": raters}
        except NotTestable as error:
            facts[name] = str(error)
    facts["decoys"] = {
        name: {"right": right, "shown": total, "left_out": name in out} for name, (right, total) in decoys.items()
    }
    if better:
        try:
            facts["ranking"] = [
                {
                    "entry": name,
                    "strength": interval.value,
                    "low": interval.low,
                    "high": interval.high,
                    "images": interval.clusters,
                }
                for name, interval in ranking(votes, planned)
            ]
        except NotTestable as error:
            facts["ranking"] = str(error)
    else:
        verdicts = [] if about_patches else majorities(votes, planned)
        judged = len(judged_patches(book)) if about_patches else len(verdicts)
        facts |= {"judged": judged, "waiting": book.count(decoy=False) - judged}
        if not about_patches:
            facts["recognised"] = sum(v.recognised for v in verdicts)
    if as_json:
        console.emit(facts)
        return
    single = [(name, value) for name, value in facts.items() if not isinstance(value, dict | list)]
    figures = [(name, f"{value:.3f}" if isinstance(value, float) else value) for name, value in single]
    console.table("Votes", ["figure", "value"], figures)
    lines = [(name, right, total, "no" if name in out else "yes") for name, (right, total) in decoys.items()]
    console.table("Decoys", ["annotator", "right", "of", "counts"], lines)
    if isinstance(facts.get("ranking"), list):
        rows = [tuple(f"{v:.3f}" if isinstance(v, float) else v for v in r.values()) for r in facts["ranking"]]  # type: ignore[attr-defined]
        console.table("Which is better", ["entry", "log-strength", "low", "high", "images"], rows)


@annotate.command()
@FILE
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="Folder to write.")
def bapps(file: Path, out: Path) -> None:
    """Write judged patches in the layout of BAPPS, for the data set bapps:FOLDER and for training."""
    from imharness.commands import console
    from imharness_annotation.outcome import write_bapps

    console.say(f"{write_bapps(out, _book(file))} judged pairs in {out}")


@annotate.command("import")
@FILE
@click.option("--replace", is_flag=True, help="Put the votes in the place of those of another file of this name.")
@store_option()
@site_option("site")
def import_votes(file: Path, replace: bool, store: str, site: Path) -> None:
    """Put what people say into the results, by votes of people who passed the decoys, as many as were planned.

    Majorities about reconstructions replace the classifier's answers. Choices between defended images become
    Bradley-Terry scores, which a table shows beside D. Votes on images that the latest run does not have are left out.
    More votes of the same file take the place of its earlier ones.
    """
    from imharness.commands import add_external, build_site, console
    from imharness.errors import UsageError
    from imharness_annotation.asking import IQA, RECONSTRUCTION, ROLES, shown_by
    from imharness_annotation.outcome import IMAGE, evaluations, majorities, subjective_rows

    book = _book(file)
    votes, out = book.counted(), len(book.left_out())
    if book.about("kind") == "better":
        if not evaluations(votes, book.planned):
            raise UsageError(f"{file} has no image with {book.planned} votes that count on every pair of defenses.")
        task_keys = shown_by(book, store)
        results = evaluations([vote for vote in votes if vote.key in task_keys], book.planned)
        _say_others(store, len(evaluations(votes, book.planned)) - len(results), len(results))
        tasks = {tuple(v.facts.get(fact, "") for fact in IMAGE): task_keys[v.key] for v in votes if v.key in task_keys}
        about = [tasks[tuple(e.facts.values())] for e in results for _ in e.strengths]
        scores = subjective_rows(results)
        add_external(store, IQA, scores, file.stem, about, replace=replace, source=book.identity)
        build_site(store, site)
        console.say(f"{len(results)} evaluations are in the tables: {site / 'iqa.html'}")
        return
    every = majorities(votes, book.planned)
    if not every:
        raise UsageError(
            f"{file} has no reconstruction with {book.planned} votes that count; the decoys leave {out} people out."
        )
    task_keys = shown_by(book, store)
    verdicts = [verdict for verdict in every if verdict.key in task_keys]
    _say_others(store, len(every) - len(verdicts), len(verdicts))
    rows = {name: [v.facts[name] for v in verdicts] for name in (*ROLES, "name")}
    columns = {**rows, "recognised": [float(v.recognised) for v in verdicts]}
    keys = [task_keys[verdict.key] for verdict in verdicts]
    add_external(store, RECONSTRUCTION, columns, file.stem, keys, replace=replace, source=book.identity)
    build_site(store, site)
    console.say(f"{len(verdicts)} majorities are in the tables: {site / 'reconstruction.html'}")
    console.say(f"for votes to count: {book.demand}; {out} people are left out.")


def _say_others(store: str, others: int, remaining: int) -> None:
    """Say how many verdicts are about images that a store's latest run does not have; raise `UsageError` if all are."""
    from imharness.commands import console
    from imharness.errors import UsageError

    if not others:
        return
    message = (
        f"{others} of {others + remaining} verdicts are about images that the latest run of {store} does not have: it "
        "was computed again, or is another one"
    )
    if not remaining:
        raise UsageError(f"{message}; import into the store that people were asked about.")
    console.warn(f"{message}; they are left out")


def _is_local(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
