"""Kills real small runs at random moments, lets the same commands go on, and compares all rows with undisturbed ones.

Run it from the root of the repository::

    python -m tests.faults.many_kills --kills 100 --seed 0

Prints how many kills fell into each phase, and which processes they killed. Exits with 1 if anything finished was lost,
a row differs, a process is left over, or a traceback was printed.
"""

import argparse
import hashlib
import random
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from tests.faults.forked import PHASES, STUDY, Command, age, digests, left_over, remains
from tests.submissions.conftest import PROFILE, wheel_of

from imharness.components.registry import installed
from imharness_annotation.book import Book, Question

SHARES = {
    "planning": 12, "attack": 18, "evaluation": 18, "ranking": 10, "publishing": 12, "training": 10, "submission": 10,
    "annotation": 10,
}  # fmt: skip
"""How many of a hundred kills are meant for each phase."""
LONG_S = {"planning": 0.08, "attack": 0.25, "evaluation": 0.15, "ranking": 0.3, "publishing": 0.9, "training": 1.5}
"""About how many seconds a phase lasts; a kill comes at a random time within."""
RUN = ["run", "--all", "--profile", "study.toml", "--device", "cpu", "--json", "--limit", "6"]
TRAIN = ["train", "classifier", "--dataset", "thumbnails[per_photograph=1,size=16]", "--architecture", "lenet"]
TRAIN += ["--epochs", "40", "--device", "cpu", "--json"]
SUBMIT = ["submissions", "run", "submissions/noise", "--profile", "tiny.toml", "--device", "cpu", "--limit", "4"]
SUBMIT += ["--workers", "1", "--json"]
MANIFEST = """format = 1
summary = "A defense for tests."
authors = ["A stranger"]
contact = "a@b.example"
licence = "MIT"
extra_training_data = "none"
[package]
name = "noise"
version = "1.0"
sha256 = "{sha256}"
file = "../../{file}"
[hardware]
memory_gib = 3
[[entries]]
kind = "defense"
id = "good/noise"
"""


@dataclass
class Tally:
    """Kills by phase and kind, mistakes, processes left over, and numbers of comparisons and unfinished files."""

    fell: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    compared: int = 0
    unfinished: int = 0

    @property
    def kills(self) -> int:
        return sum(self.fell.values())

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)
            print(f"WRONG: {what}", flush=True)


class Kills:
    """Random kills of commands in one folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.tally, self._random = folder, Tally(), random.Random(seed)
        self._number = 0

    def start(self, words: list[str], phase: str | None = None) -> Command:
        self._number += 1
        return Command(words, self.folder, self.folder / f"{self._number}.log", phase)

    def hit(self, command: Command, kind: str) -> bool:
        """Kill a command or one of its processes, and note what was hit and left; say whether the command ended."""
        seen = command.processes()
        if command.ended or not command.kill(kind):
            return False
        ends = kind in ("group", "parent")
        if ends:
            command.wait()
        phase = command.moment.phase
        self.tally.fell[phase, kind] += 1
        if ends:
            self.tally.left += [f"{phase}, {kind}: {line}" for line in left_over(seen)]
        return ends

    def finish(self, words: list[str], phase: str | None = None) -> Command:
        """Let a command run to its end; it must succeed and print no traceback."""
        command = self.start(words, phase)
        command.wait()
        self.tally.check(command.code == 0, f"{' '.join(words)} ended with {command.code}: {_end(command.log)}")
        return command

    def runs(self, wanted: Counter[str]) -> None:
        """Kill runs; one store takes kills of every phase, is finished and compared, and is then begun anew."""
        self.finish([*RUN, "--workers", "0", "--store", "whole", "--site", "site-whole"])
        whole, number, most = digests(self.folder / "whole"), 0, 3 * wanted.total()
        while wanted.total():
            if number == most:
                raise RuntimeError(f"after {number} stores these kills are still missing: {wanted}; {self.tally.wrong}")
            store, number = f"store{number}", number + 1
            words = [*RUN, "--store", store, "--site", f"site{number}", "--workers", "02"[number % 2]]
            for phase in (p for p in PHASES if wanted[p]):
                for _ in range(2 if phase in ("attack", "evaluation") and wanted[phase] > 1 else 1):
                    wanted[phase] -= self._kill_one(words, phase, digests(self.folder / store))
            folders = [self.folder / store, self.folder / f"site{number}"]
            self.tally.unfinished += sum(len(remains(folder)) for folder in folders)
            for path in folders:
                age(path)
            self.finish(words)
            self.tally.check(
                not any(map(remains, folders)), f"{store}: a later run left unfinished files of a killed one"
            )
            shared_digests = digests(self.folder / store)
            self.tally.compared += len(shared_digests)
            self.tally.check(shared_digests == whole, f"{store}: rows or arrays differ from the undisturbed run")
            self.finish(["results", "verify", "--store", store])

    def _kill_one(self, words: list[str], phase: str, before: dict[str, str]) -> int:
        command, kills = self.start(words), self.tally.kills
        kind = self._random.choice(["group", "parent", "worker", "server"] if words[-1] == "2" else ["group"])
        if phase in ("planning", "ranking", "publishing") and kind in ("worker", "server"):
            kind = "parent"  # there are no workers then
        count = self._random.randint(0, 3)
        entered = [0]

        def there() -> bool:
            if command.moment.phase == phase and command.moment.count != entered[-1]:
                entered.append(command.moment.count)
            return len(entered) > 1 and (len(entered) > count or phase not in ("attack", "evaluation"))

        if command.wait(there):
            time.sleep(self._random.uniform(0, LONG_S[phase]))
        if not self.hit(command, kind):
            command.wait()
            text = command.log.read_text()
            self.tally.check(
                command.code == 0, f"a run whose {kind} was killed ended with {command.code}: {_end(command.log)}"
            )
        else:
            text = command.log.read_text()
        self.tally.check("Traceback" not in text, f"traceback after a kill of the {kind}: {text[-600:]}")
        store = Path(self.folder / words[words.index("--store") + 1])
        after = digests(store)
        self.tally.check(before.items() <= after.items(), f"{store.name}: something finished was lost or changed")
        return self.tally.kills - kills

    def trainings(self, wanted: int) -> None:
        """Kill each training up to three times, let it finish, and compare the weights."""
        self.finish([*TRAIN, "--out", "trained"], "training")
        whole, number = _weights(self.folder / "trained"), 0
        while wanted > 0:
            number += 1
            words = [*TRAIN, "--out", f"trained{number}"]
            for _ in range(min(3, wanted)):
                command = self.start(words, "training")
                time.sleep(self._random.uniform(0, LONG_S["training"]))
                wanted -= self.hit(command, "group")
            self.finish(words, "training")
            self.tally.compared += 1
            folder = self.folder / f"trained{number}"
            self.tally.check(_weights(folder) == whole, "weights differ from the undisturbed training")
            self.tally.check(not [*folder.glob("*.checkpoint")], "a checkpoint is left of a finished training")

    def submissions(self, wanted: int) -> None:
        """Kill runs of a submission, let the last one finish, and compare its tasks."""
        self._submission()
        began = time.monotonic()
        self.finish([*SUBMIT, "--store", "judged", "--site", "judged-site"], "submission")
        took = time.monotonic() - began
        words = [*SUBMIT, "--store", "judged-killed", "--site", "judged-killed-site"]
        while wanted > 0:
            command = self.start(words, "submission")
            time.sleep(self._random.uniform(0, took))
            wanted -= self.hit(command, self._random.choice(["group", "parent"]))
        self.finish(words, "submission")
        whole, killed = digests(self.folder / "judged"), digests(self.folder / "judged-killed")
        self.tally.compared += len(killed)
        self.tally.check(whole == killed, "tasks of a submission differ from the undisturbed run")
        self.finish(["submissions", "ledger", "--store", "judged-killed"], "submission")
        self.finish(["results", "verify", "--store", "judged-killed"], "submission")

    def _submission(self) -> None:
        module = Path(__file__).parents[1] / "sandbox" / "honest" / "noise.py"
        wheel, folder = wheel_of(module, self.folder), self.folder / "submissions" / "noise"
        folder.mkdir(parents=True)
        sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (folder / "submission.toml").write_text(MANIFEST.format(sha256=sha256, file=wheel.name))
        (self.folder / "tiny.toml").write_text(PROFILE)

    def annotations(self, wanted: int) -> None:
        """Kill the server while people vote; each vote that was answered must be in the book."""
        file, answered = self.folder / "votes.sqlite", 0
        questions = [
            Question(f"q{i}", {"name": f"n{i}"}, ("yes", "no"), "yes", i < 4, None, b"png") for i in range(400)
        ]
        Book(file).fill("class", 1000, questions)
        while wanted > 0:
            port = _free_port()
            words = ["annotate", "--file", str(file), "--port", str(port)]
            command, votes = self.start(words, "annotation"), self._random.randint(1, 12)
            for _ in _votes(command, port, f"judge {wanted}"):
                answered, votes = answered + 1, votes - 1
                if not votes:
                    break
            wanted -= self.hit(command, "group")
            vote_count = len(Book(file).votes())
            self.tally.compared += vote_count
            self.tally.check(vote_count >= answered, f"{answered} votes were answered, {vote_count} are in the book")
            answered = vote_count


def _votes(command: Command, port: int, name: str) -> Iterator[int]:
    """Vote as a person would, and yield after each vote that the server has answered."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", follow_redirects=True, trust_env=False) as client:
        command.wait(lambda: _listens(port))
        token = client.get("/").text.partition('name="token" value="')[2].partition('"')[0]
        page = client.post("/enter", data={"name": name, "token": token}).text
        while True:
            item = page.partition('name="item" value="')[2].partition('"')[0]
            answer = client.post("/vote", data={"item": item, "answer": "yes", "token": token})
            answer.raise_for_status()
            yield int(item)
            page = answer.text


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _weights(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.glob("classifier.*"))}


def _end(log: Path) -> str:
    return log.read_text()[-800:]


def kill_many(folder: Path, kills: int, seed: int, phases: tuple[str, ...] = PHASES) -> Tally:
    """Kill about `kills` times, distributed over the phases by `SHARES`, and return the tally."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.toml").write_text(STUDY)
    wanted = {phase: max(1, round(SHARES[phase] * kills / 100)) for phase in phases}
    trials = Kills(folder, seed)
    of_runs = Counter({phase: n for phase, n in wanted.items() if phase in PHASES[:5]})
    if of_runs:
        trials.runs(of_runs)
    for phase, job in (
        ("training", trials.trainings),
        ("submission", trials.submissions),
        ("annotation", trials.annotations),
    ):
        if phase in wanted:
            job(wanted[phase])
    return trials.tally


def run_by_hand() -> None:
    """Read the options, kill, and print the tally."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--phase", action="append", choices=PHASES, help="Only this phase; may be given several times.")
    arguments = parser.parse_args()
    installed()
    folder = Path(tempfile.mkdtemp(prefix="many-kills-"))
    tally = kill_many(folder, arguments.kills, arguments.seed, tuple(arguments.phase or PHASES))
    for (phase, kind), count in sorted(tally.fell.items(), key=lambda item: (PHASES.index(item[0][0]), item[0][1])):
        print(f"{phase:<11} {kind:<7} {count:4d}")
    print(f"{tally.kills} kills; {tally.compared} files and votes compared")
    print(f"{tally.unfinished} unfinished files were left, and removed by the next run")
    for line in (*tally.wrong, *(f"left over: {line}" for line in tally.left)):
        print(line)
    if tally.wrong or tally.left:
        print(f"kept: {folder}")
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    run_by_hand()
