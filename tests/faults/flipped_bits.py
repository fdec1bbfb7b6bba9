"""Flips single bits in the files of a small store, and checks that no command silently reads something else.

Run it from the root of the repository::

    python -m tests.faults.flipped_bits --flips 1000 --seed 0

After each flip the commands that read a store are run. Each has to end as it did before, or to name the file in one
line of the harness's own. For one flip in ten the site is built and published, and the run is repeated: rows and arrays
must be those of before, byte for byte, and tables must say the same. Exits with 1 where that is not so.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import imharness as ih
from imharness.cli import cli
from imharness.documents.entries import Examined
from imharness.documents.stored import read_leaderboard, read_numbers
from imharness.errors import HarnessError, StoreError
from imharness.ranking.entries import EXAMINED
from imharness.results.store import Store
from imharness.results.tasks import TaskRecord
from imharness.running.logs import keeping, log_output
from imharness_submissions.ledger import Ledger

RUN = ["run", "--track", "iqa", "--profile", "quick", "--attack", "ifgsm", "--defense", "jpeg", "--limit", "3"]
RUN += ["--workers", "0", "--progress", "none"]
UNREAD = (".lock",)
"""Files whose content no command reads."""
LONG = ("export rows", "site build", "site publish")
DECIDED = ("ledger.jsonl", "examined/")
"""Files that no run can compute again: a run that finds them damaged ends with a line that says what to do."""


def small_store(folder: Path) -> None:
    """Fill ``folder/store`` with a small run, its tables, a log, decisions, and the checks of a component."""
    folder.mkdir(parents=True, exist_ok=True)
    with chdir(folder):
        outcome(RUN)
        store = Store("store")
        key = next(iter(store.all_keys()))
        with keeping(store, key):
            log_output("a line of a log")
        checks = Examined(kind="defense", label="acme/x", code="0" * 64, failed=("fails a check",))
        store.replace(f"{EXAMINED}/{'e' * 64}.json", checks)
        Ledger("store").append("acme/x", ("acme/x",), "accepted", "it was looked at")
        Ledger("store").append("acme/y", ("acme/y",), "flagged", "it was looked at, too")
        outcome(["results", "rank"])


def outcome(words: Sequence[str]) -> tuple[int, str]:
    """Run a command in this process; return its exit status and output. Raises errors that are not of the harness."""
    result = CliRunner().invoke(cli, list(words))
    if result.exception is None or isinstance(result.exception, SystemExit):
        return result.exit_code, result.output
    if isinstance(result.exception, HarnessError):
        return 1, f"{result.output}\nerror: {result.exception}"
    raise result.exception


def loaded() -> Any:
    """Return the tables and rows that `imharness.load` reads."""
    evaluation = ih.load("store")
    rows = {
        step: {n: repr(c.tolist()) for n, c in evaluation.rows(step).items()} for step in evaluation.steps
    }  # as text, in which NaN equals NaN
    return [{name: str(table) for name, table in evaluation.tables.items()}, rows]


def files(folder: str) -> dict[str, bytes]:
    """Return the contents of all files below a folder, by their paths."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def command(*words: str, into: str = "") -> Callable[[], Any]:
    """Return a function that runs a command and returns its status, its output, and the files below `into`."""

    def run() -> Any:
        status, output = outcome(words)
        return status, output, files(into) if into else {}

    return run


def readers(key: str) -> dict[str, Callable[[], Any]]:
    """Return commands that read a store and change nothing in it that other commands read."""
    return {
        "list": command("results", "list", "--json"),
        "show": command("results", "show", key, "--json"),
        "status": command("status", "--json"),
        "decisions": command("submissions", "ledger", "--json"),
        "load": loaded,
        "export": command("results", "export", "--format", "csv", "--to", "out", into="out"),
        "export rows": command("results", "export", "--rows", "--format", "csv", "--to", "rows", into="rows"),
        "copy": command("results", "copy", "store", "other", into="other"),
    }


WRITERS = {
    "rank": command("results", "rank"),
    "site build": command("site", "build", into="site"),
    "site publish": command("site", "publish", "--to", "public", "--release", "r", into="public"),
}
"""Commands that may write tables into the store, each of which gets a fresh copy."""


def compared(folder: Path) -> dict[str, object]:
    """Return the results of a run, without times and durations, which differ between two runs."""
    contents: dict[str, object] = {}
    store = Store(folder)
    for key, record in store.records():
        assert isinstance(record, TaskRecord), record
        about = record.model_dump(mode="json", exclude={"seal", "size", "number", "started", "seconds", "facts"})
        columns = {
            name: (str(column.dtype), repr(column.tolist())) for name, column in store.rows(record).items()
        }  # as text, in which NaN equals NaN
        arrays = {name: array.tobytes() for name, array in store.arrays(record).items()}
        contents[key] = about, columns, arrays, {name: fact for name, fact in record.facts.items() if name != "ms"}
    for track in store.ranked():
        leaderboard = read_leaderboard(store, track)
        assert leaderboard is not None
        contents[track] = (
            leaderboard.tables[0],
            leaderboard.rankings,
            leaderboard.comparisons,
            leaderboard.missing,
            leaderboard.failed,
        )
        contents[f"{track} numbers"] = {n: a.tobytes() for n, a in read_numbers(store, leaderboard).items()}
    return contents


class Flips:
    """An undamaged store, and what each command returns for it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.wrong, self.seen = folder, list[str](), Counter[str]()
        self.pristine = folder / "pristine"
        key = next(
            key for key, record in Store(self.pristine).records() if isinstance(record, TaskRecord) and record.arrays
        )
        self.readers = readers(key)
        self.before = {name: self._said(read) for name, read in (self.readers | WRITERS).items()}
        self.results = compared(self.pristine)
        self.names = sorted(str(p.relative_to(self.pristine)) for p in self.pristine.rglob("*") if p.is_file())

    def _fresh(self) -> Path:
        """Return a folder with a new copy of the undamaged store."""
        folder = self.folder / "work"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.pristine, folder / "store")
        return folder

    def _said(self, read: Callable[[], Any], damage: Callable[[Path], object] = lambda store: None) -> Any:
        """Return what a command returns for a damaged copy of the store, or the text of its error."""
        folder = self._fresh()
        damage(folder / "store")
        with chdir(folder):
            try:
                return read()
            except StoreError as error:
                return f"error: {error}"
            except Exception:
                return f"TRACEBACK {traceback.format_exc()}"

    def flip(self, name: str, position: int, bit: int, *, whole: bool = True) -> None:
        """Flip a bit of a file and run the commands; those that take long only if `whole`."""

        def damage(store: Path) -> None:
            content = bytearray((store / name).read_bytes())
            content[position] ^= 1 << bit
            (store / name).write_bytes(content)

        what, kind = f"{name} byte {position} bit {bit}", name.partition("/")[0]
        named = False
        for reader, read in (self.readers | WRITERS).items():
            if reader in LONG and not whole:
                continue
            now = self._said(read, damage)
            text = now if isinstance(now, str) else str(now[1]) if isinstance(now, tuple) else ""
            if name in text and "TRACEBACK" not in text:
                named = True
                self.seen[f"{kind}: named by {reader}"] += 1
            elif now == self.before[reader]:
                self.seen[f"{kind}: changes nothing for {reader}"] += 1
            elif reader == "copy" and self._copied(now, name):
                self.seen[f"{kind}: is not copied"] += 1
            else:
                self._wrong(what, f"{reader} says {text[-1500:] or 'something else'}")
        verified = self._said(command("results", "verify"), damage)
        if name not in UNREAD and (verified[0] != 1 or name not in verified[1]):
            self._wrong(what, f"verify does not name it: {verified}")
        if whole:
            self._run_again(what, name, damage)
        self.seen["named at least once" if named else "named by verify alone"] += 1

    def _copied(self, now: Any, name: str) -> bool:
        return isinstance(now, tuple) and now[0] == 0 and now[2] == self.before["copy"][2]

    def _run_again(self, what: str, name: str, damage: Callable[[Path], object]) -> None:
        said_ = self._said(command(*RUN), damage)
        store = self.folder / "work" / "store"
        if isinstance(said_, str) or said_[0] != 0:
            if name.startswith(DECIDED) and name in str(said_):
                self.seen["not computed: the run names it and says what to do"] += 1
                return
            self._wrong(what, f"the run failed: {str(said_)[-1500:]}")
            return
        try:
            if compared(store) != self.results:
                self._wrong(what, "results after the next run differ")
        except Exception as error:
            self._wrong(what, f"the next run left damage: {error!r}")

    def _wrong(self, what: str, why: str) -> None:
        self.wrong.append(f"{what}: {why}")
        print(f"WRONG {what}: {why}", file=sys.stderr, flush=True)


def drawn(names: Sequence[str], folder: Path, flips: int, seed: int) -> Iterator[tuple[str, int, int]]:
    """Yield (file, byte, bit) to flip; each kind of file equally often, whatever its number of files and bytes."""
    rng, kinds = random.Random(seed), dict[str, list[str]]()
    for name in names:
        if name not in UNREAD:
            kinds.setdefault(name.partition("/")[0] + Path(name).suffix, []).append(name)
    for number in range(flips):
        name = rng.choice(kinds[sorted(kinds)[number % len(kinds)]])
        yield name, rng.randrange((folder / name).stat().st_size), rng.randrange(8)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--whole-every", type=int, default=10, help="how many flips are tried with all commands")
    options = parser.parse_args()
    os.environ["COLUMNS"] = "200"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        small_store(folder / "made")
        shutil.copytree(folder / "made" / "store", folder / "pristine")
        flips = Flips(folder)
        for number, (name, at, bit) in enumerate(drawn(flips.names, flips.pristine, options.flips, options.seed)):
            flips.flip(name, at, bit, whole=number % options.whole_every == 0)
            if number % 10 == 9:
                print(number + 1, len(flips.wrong), flush=True)
    for seen, count in sorted(flips.seen.items()):
        print(f"{count:6} {seen}")
    print(f"{options.flips} flips, {len(flips.wrong)} wrong")
    return 1 if flips.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
