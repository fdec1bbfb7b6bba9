"""A small store with everything a site can show, names that try to break out of it, and a server for its pages."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page
from tests.long_rows import paired_scores

from imharness.documents.charts import Chart, Series
from imharness.documents.entries import Entry, Parameter
from imharness.documents.gallery import Example, Panel
from imharness.documents.leaderboards import Leaderboard
from imharness.documents.report import PairedScores
from imharness.documents.stored import write_leaderboard
from imharness.documents.tables import ColumnSpec, Row, Table, Value
from imharness.ranking.tables import win_table
from imharness.results.identity import digest
from imharness.results.store import Store
from imharness.results.sweeps import Missing
from imharness.results.tasks import TaskRecord, TaskSpec
from imharness_leaderboard.pages import build_site

from .browsing import opened, served, watched
from .contested import contested

EVIL = "<script>alert('x')</script>"
"""A text that would run a script where a page does not escape it."""
ENTRIES = ("acme/blur", "acme/blur[radius=2]", "acme/none", EVIL)


def long_rows(entries: int = 4, images: int = 15) -> tuple[np.ndarray, ...]:
    """Return scores of entries on images in four conditions, as columns; the entry `EVIL` lacks the metric n."""
    rng, rows = np.random.default_rng(0), []
    labels = [*ENTRIES, *(f"acme/more-{i}" for i in range(entries - 4))]
    for e, label in enumerate(labels):
        for metric in ("m", "n"):
            for attack in ("fgsm", EVIL):
                if not (e == 3 and metric == "n"):
                    scores = rng.normal(e * 0.6, 1, images).round(1)
                    rows += [(label, metric, attack, f"image {i}", s) for i, s in enumerate(scores)]
    return tuple(np.array(column) for column in zip(*rows, strict=True))


PHOTOGRAPHS = {f"image {i}": f"photograph {i % 7}" for i in range(15)}
"""Image -> the photograph that it comes from."""


def paired(entries: int = 4, *, clusters: dict[str, str] | None = None):
    labels, metric, attack, image, score = long_rows(entries)
    return paired_scores(
        labels,
        {"metric": metric, "attack": attack},
        image,
        score,
        id="wins",
        title="Who beats whom",
        about="lower D",
        entry="defense",
        measure="D",
        description=f"How far. {EVIL}",
        better="lower",
        decimals=2,
        families={"acme/blur": "filter", "acme/none": "none"},
        table="main",
        column="d",
        clusters=clusters,
        cluster_unit="photograph" if clusters else "",
    )


def images(store: Store) -> str:
    """Put a task with two images into a store; return its key."""
    spec = TaskSpec(
        track="acme/track", step="gallery", version="1", components={}, options={}, limit=None, seed=0, needs={}
    )
    key = digest(spec.identity())
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 8, 8), dtype=np.uint8)
    record = TaskRecord(key=key, spec=spec, status="done", started="", seconds=0.0, device="cpu", versions={})
    store.commit(record, {}, {"images": pixels})
    return key


def sample_leaderboard(store: Store | None = None, **changes) -> Leaderboard:
    scores = paired()
    comparison, _ = scores.stored()
    rows = tuple(
        Row(
            label=label,
            values={
                "d": Value(value=1.25 + i, low=1.0, high=1.5 + i, n=7),
                "r": Value(missing=EVIL) if i else Value(value=2.0),
            },
            facets={"family": "filter" if i < 2 else "none"},
        )
        for i, label in enumerate(ENTRIES)
    )
    main = Table(
        id="main",
        title=EVIL,
        caption=EVIL,
        entry="defense",
        note=EVIL,
        ranked_by="d",
        columns=(
            ColumnSpec(key="d", label="D", description='" onmouseover="alert(1)', better="lower"),
            ColumnSpec(key="r", label=EVIL, description=EVIL, better="higher"),
        ),
        rows=rows,
        not_worse={"d": ("acme/blur[radius=2]",)},
    )
    entry = Entry(
        kind="defense",
        id="acme/blur",
        label="acme/blur",
        version="1",
        summary=EVIL,
        package="acme",
        package_version="1",
        author=EVIL,
        licence="MIT",
        home="https://example.org",
        paper=EVIL,
        paper_url="javascript:alert(1)",
        traits={"random": "no"},
        tasks=3,
        seconds=1.5,
        parameters=(Parameter(name="radius", value="1", default="1", bounds="at least 1", description=EVIL),),
    )
    panels = ()
    if store is not None:
        key = images(store)
        panels = tuple(
            Panel(label=name, task=key, array="images", position=i, score="1.0")
            for i, name in enumerate(("original", "attacked"))
        )
    facts = {
        "track": "acme/evil",
        "title": "Evil track",
        "measures": EVIL,
        "profile": "p",
        "seed": 0,
        "limit": 3,
        "command": EVIL,
        "finished": "2026-01-02",
        "tasks_done": 1,
        "tasks_failed": 1,
        "tasks_missing": 1,
        "tables": (main, win_table(scores)),
        "missing": (Missing(what=EVIL, reason=EVIL, remedy=EVIL),),
        "failed": {EVIL: EVIL},
        "versions": {"torch": EVIL},
        "entries": (entry,),
        "comparisons": (comparison,),
        "sources": "0" * 64,
        "charts": (
            Chart(id="front", title="Front", caption=EVIL, kind="scatter", table="main", x="d", y="r"),
            Chart(id="dots", title="Dots", caption="c", kind="dots", table="main", x="d"),
            Chart(
                id="roc",
                title="ROC",
                caption="c",
                kind="curves",
                log=True,
                series=(Series(label=EVIL, x=(0.0, 0.1, 1.0), y=(0.0, 0.5, 1.0)),),
            ),
        ),
        "examples": (Example(entry="acme/blur", title=EVIL, facets={"metric": EVIL}, panels=panels),) if panels else (),
    }
    return Leaderboard(**(facts | changes))


def many(rows: int) -> Table:
    """Return a table of many rows."""
    column = ColumnSpec(key="v", label="value", description="A number.", better="higher")
    table_rows = tuple(
        Row(
            label=f"acme/entry-{i:05d}",
            values={"v": Value(value=float(i * 7919 % rows), low=0, high=1, n=3)},
            facets={"parity": "odd" if i % 2 else "even"},
        )
        for i in range(rows)
    )
    return Table(id="many", title="Many rows", caption="c", entry="defense", columns=(column,), rows=table_rows)


def by_photograph() -> Table:
    """Return the main table, with numbers of images that come from photographs."""
    main = sample_leaderboard().tables[0]
    words = {"unit": "image", "cluster_unit": "photograph"}
    rows = [
        row.model_copy(update={"values": {**row.values, "d": row.values["d"].model_copy(update={"clusters": 3})}})
        for row in main.rows
    ]
    columns = (main.columns[0].model_copy(update=words), main.columns[1])
    return main.model_copy(update={"rows": tuple(rows), "columns": columns})


def save(store: Store, leaderboard: Leaderboard, scores: PairedScores | None = None) -> None:
    comparison, numbers = (scores or paired()).stored()
    write_leaderboard(store, leaderboard, {comparison.id: numbers})


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that one of all test processes makes, and that all of them only read."""
    shared = factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder, done = shared / name, shared / f"{name}.done"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that failed to make it
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built site of one leaderboard with everything, one with 2,000 rows, and one that is ranked by the policy."""
    return made_once(tmp_path_factory, "leaderboard", _build) / "site"


def _build(folder: Path) -> None:
    store = Store(folder / "store")
    save(store, sample_leaderboard(store))
    grouped = paired(clusters=PHOTOGRAPHS)
    plain = sample_leaderboard(
        track="harness/plain",
        title="Plain track",
        tables=(by_photograph(), many(2000)),
        charts=(),
        comparisons=(grouped.stored()[0],),
    )
    save(store, plain, grouped)
    write_leaderboard(store, *contested(sample_leaderboard, store, images(store)))
    result = build_site(folder / "store", folder / "site")
    assert not result.problems


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory, harness_here) -> Path:
    """The folder of a real run of two metrics, with its store and site; tests only read it."""
    words = ("run", "--track", "perceptual", "--metric", "psnr", "--metric", "mae", "--limit", "12", "--workers", "0")

    def run(folder: Path) -> None:
        result = harness_here(*words, cwd=folder)
        assert result.returncode == 0, result.stderr

    return made_once(tmp_path_factory, "run", run)


@pytest.fixture(scope="session")
def address(built: Path) -> Iterator[str]:
    """The address of the built site on this machine."""
    with served(built) as site_address:
        yield site_address


@pytest.fixture(scope="package")
def shared(browser: Browser, address: str) -> Iterator[Page]:
    """A page for all tests: opening one takes Chromium three times as long as loading something into it."""
    yield from opened(browser, address)


@pytest.fixture
def page(shared: Page, address: str) -> Iterator[Page]:
    """The shared page, as if it were new; errors of scripts, and requests elsewhere than to the site, fail the test."""
    yield from watched(shared, address)


@pytest.fixture
def new_page(browser: Browser, address: str) -> Iterator[Page]:
    """A page that no other test sees, watched alike."""
    for opened_page in opened(browser, address):
        yield from watched(opened_page, address)
