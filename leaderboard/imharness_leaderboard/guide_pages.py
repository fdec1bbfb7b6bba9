"""The guides of the site: a question, six lines of code that answer it, their time, and a picture of what they give.

What is said of an answer was measured: `docs/guides.py` runs the code and keeps its text, time and picture.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from imharness.documents.leaderboards import Leaderboard
from imharness.results.identity import DISTRIBUTION
from imharness_leaderboard.addresses import track_page

FOLDER = Path(__file__).parent / "guides"


@dataclass(frozen=True)
class Guide:
    """A guide: the `question` on its button, what it is about (`lead`), and what a reader `needs` for it.

    `steps`: what to do next, each with the command. `ranking`: the heading of the rankings that belong to it.
    `tracks`: those of these rankings; empty for all. `tutorial`: the page of the documentation that says more.
    """

    name: str
    question: str
    lead: str
    needs: str
    steps: Sequence[tuple[str, str]]
    ranking: str
    tracks: Sequence[str]
    tutorial: str

    @property
    def page(self) -> str:
        """The address of its page."""
        return f"guide-{self.name}.html"

    @property
    def picture(self) -> str:
        """The address of its picture."""
        return f"guides/{self.name}.png"

    @property
    def ran(self) -> Ran:
        """What its code gave when it was run last."""
        return _ran(self.name)

    def rankings(self, leaderboards: Sequence[Leaderboard]) -> list[tuple[str, str]]:
        """Return title and page of the tracks of a site that belong to it."""
        return [(one.title, track_page(one)) for one in leaderboards if not self.tracks or one.track in self.tracks]


@dataclass(frozen=True)
class Ran:
    """A run of a guide's code on an example.

    `before` makes the example, `code` are the six lines, `text` is the answer as text, and `seconds` is the time that
    one core worked on the six lines, the import included; `size` is that of the picture, px.
    """

    before: str
    code: str
    text: str
    seconds: float
    version: str
    size: tuple[int, int]

    @property
    def first(self) -> str:
        """The first line of the answer that is not empty."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")

    @property
    def time(self) -> str:
        """The time in words."""
        seconds = max(1, round(self.seconds))
        return f"{seconds} s" if seconds < 100 else f"{round(seconds / 60)} minutes"


@cache
def _ran(name: str) -> Ran:
    facts = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return Ran(**{**facts, "size": tuple(facts["size"])})


@cache
def project_addresses() -> Mapping[str, str]:
    """Return where the project is kept, by what is there, such as "Documentation"; empty where a build has none."""
    try:
        lines = metadata(DISTRIBUTION).get_all("Project-URL") or []
    except PackageNotFoundError:
        return {}
    return {name: address for name, _, address in (line.partition(", ") for line in lines)}


GUIDES = (
    Guide(
        "audit",
        "May I release my model?",
        "Whoever sees the outputs of a model can guess which records it was trained on. The audit measures how often "
        "such guesses are right, and says whether that stays below the threshold that you set.",
        "You need the outputs of your model on records that it was trained on, and on others. The same of a second "
        "model, trained on other records, makes the attack stronger; without it, leave out the shadow.",
        (
            (
                "The same from the command line, with a page for whoever decides",
                "harness membership audit outputs.npz --report report.pdf --fail-above 0.6",
            ),
            ("Compare defenses on your kind of data", "harness run --track membership"),
        ),
        "What lowers such guesses, and what it costs",
        ("harness/membership",),
        "docs/tutorials/audit-my-model.md",
    ),
    Guide(
        "reconstruct",
        "May I share gradients?",
        "In federated learning a client keeps its images and sends gradients. Here an attacker at the server rebuilds "
        "the image from the gradient, and you see how close it comes.",
        "You need your network, the gradients that a client would send, and the image behind them, which the attack "
        "does not see: it serves only the comparison.",
        (("Compare defenses against attacks that know them", "harness run --track reconstruction --limit 2"),),
        "What keeps gradients from giving images away, and what it costs",
        ("harness/reconstruction",),
        "docs/tutorials/federated-gradients.md",
    ),
    Guide(
        "evaluate",
        "Where would my method land?",
        "A defense that works against attackers who do not know it may be useless against those who do. Your function "
        "is ranked with others, under attacks of both kinds, by the rules of the leaderboard.",
        "You need a function of images. Metrics, attacks and evaluators of your own are ranked the same way, with "
        "ih.metric, ih.attack and ih.evaluator.",
        (
            ("Make a package of it, which is needed for this leaderboard", "harness plugins new defense acme/mine"),
            ("Rank it on everything that ships", "harness run --track iqa"),
        ),
        "The rankings it would enter",
        (),
        "docs/tutorials/my-defense.md",
    ),
)
"""The guides in the order of their buttons."""
