"""Runs the examples of the site's guides and writes their results to `leaderboard/imharness_leaderboard/guides/`.

    python docs/guides.py [--check] [NAME...]

Each guide is six lines of code for a reader's own model, gradients or method. This script runs them on a small example,
each in its own process, and writes the CPU time, the answer as text, and a picture of the answer. Pictures need
Chromium. With --check it only names the guides whose code has changed since they were run.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

from imharness.cli import console
from imharness.results.version import __version__

FOLDER = Path(__file__).resolve().parents[1] / "leaderboard" / "imharness_leaderboard" / "guides"
WIDTH, HIGHEST = 900, 1200
"""The width of a picture, and its largest height, px."""
EXAMPLES = {
    "audit": (
        """
        import numpy as np
        from sklearn.datasets import load_digits
        from sklearn.neural_network import MLPClassifier

        rng = np.random.default_rng(0)
        images, labels = load_digits(return_X_y=True)
        images = images / 16 + rng.normal(0, 0.5, images.shape)
        parts = np.split(rng.permutation(len(images))[:1600], 4)
        for name, members, others in (("mine", *parts[:2]), ("shadow", *parts[2:])):
            network = MLPClassifier(64, alpha=0, max_iter=500, tol=1e-3, random_state=0)
            network.fit(images[members], labels[members])
            rows = np.concatenate([members, others])
            answers = {"probabilities": network.predict_proba(images[rows]), "labels": labels[rows]}
            np.savez(f"{name}.npz", **answers, member=np.isin(rows, members))
        """,
        """
        import imharness as ih
        import numpy as np
        mine = np.load("mine.npz")      # probabilities, labels and member (true or false) of each record
        shadow = np.load("shadow.npz")  # the same of a model that you trained on other records
        result = ih.audit(mine, shadow)
        result.report("report.html", fail_above=0.6)
        """,
    ),
    "reconstruct": (
        """
        import torch
        from sklearn.datasets import load_digits

        torch.manual_seed(0)
        digit = torch.tensor(load_digits().images[0] / 16).float()
        image = torch.nn.functional.interpolate(digit.expand(1, 3, 8, 8), size=16, mode="nearest")
        label = torch.tensor([0])
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 12, 5, padding=2, stride=2),
            torch.nn.Sigmoid(),
            torch.nn.Flatten(),
            torch.nn.Linear(12 * 8 * 8, 10),
        ).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
        """,
        """
        import imharness as ih
        import torch
        loss = torch.nn.functional.cross_entropy(model(image), label)
        gradients = torch.autograd.grad(loss, list(model.parameters()))  # what your client sends
        result = ih.reconstruct(gradients, model, (3, 16, 16), originals=image, metrics=["psnr"])
        print(result)
        """,
    ),
    "evaluate": (
        "",
        """
        import imharness as ih
        import torch
        def smooth(images):  # your method: images (n, 3, height, width) in [0, 1] -> the same
            return torch.nn.functional.avg_pool2d(images, 3, stride=1, padding=1)
        mine = ih.defense(smooth, differentiable=True)
        result = ih.evaluate(mine, track="iqa", against=["none", "jpeg"])
        """,
    ),
}
"""Guide -> (code that makes an example of the reader's model, gradients or data; the six lines of the guide)."""
RUN = """
import json, resource
from pathlib import Path
before, code = (Path(name).read_text(encoding="utf-8") for name in ("before.txt", "code.txt"))
names = {}
exec(before, names)
start = resource.getrusage(resource.RUSAGE_SELF)
exec(code, names)
end = resource.getrusage(resource.RUSAGE_SELF)
result, page = names["result"], Path("report.html")
html = page.read_text(encoding="utf-8") if page.exists() else result._repr_html_()
if getattr(result, "images", None) is not None:
    import numpy as np
    from PIL import Image
    both = np.concatenate([names["image"].numpy()[0], result.images[0]], axis=2).transpose(1, 2, 0)
    Image.fromarray(np.rint(255 * both).astype(np.uint8)).resize((384, 192), 0).save("both.png")
    html = '<img src="both.png" alt=""><p>Left the private image, right what the attack rebuilt.</p>' + html
style = "<style>body { font: 16px system-ui, sans-serif; margin: 12px; background: #fff; }</style>"
page.write_text(f"<!doctype html><meta charset=utf-8>{style}{html}", encoding="utf-8")
seconds = end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime
Path("facts.json").write_text(json.dumps({"seconds": round(seconds, 1), "text": str(result)}), encoding="utf-8")
"""
"""Python code that runs both codes of a guide, from the files before.txt and code.txt in the current folder.

It writes report.html, the answer as a page, and facts.json, the answer as text and the CPU seconds of the six lines.
"""


def code_of(name: str) -> tuple[str, str]:
    """Return the code that makes the example of a guide, and the guide's six lines."""
    before, code = EXAMPLES[name]
    return dedent(before).strip(), dedent(code).strip()


def ran(name: str, folder: Path) -> dict[str, Any]:
    """Run a guide in an empty folder; return the seconds of one core, and the answer as text."""
    for file, text in zip(("before.txt", "code.txt"), code_of(name), strict=True):
        (folder / file).write_text(text + "\n", encoding="utf-8")
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder)}
    subprocess.run([sys.executable, "-c", RUN], cwd=folder, env=surroundings, check=True)
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    return facts


def drawn(page: Path, picture: Path) -> tuple[int, int]:
    """Draw a page down to its last content, at most `HIGHEST` px; return width and height of the picture, px."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium())
        view = browser.new_page(viewport={"width": WIDTH, "height": HIGHEST})
        view.goto(page.as_uri())
        height = min(HIGHEST, view.evaluate("Math.ceil(document.body.getBoundingClientRect().bottom + 12)"))
        view.screenshot(path=picture, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
        browser.close()
    return WIDTH, height


def chromium() -> str:
    """Return where Chromium is; raises `SystemExit` where it is not."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise SystemExit("pictures take Chromium, which is not here")
    return program


def outdated() -> list[str]:
    """Return the names of the guides whose code has changed since they were run."""
    names = []
    for name in EXAMPLES:
        path = FOLDER / f"{name}.json"
        facts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if (facts.get("before"), facts.get("code")) != code_of(name):
            names.append(name)
    return names


def write(name: str) -> None:
    """Run a guide, and write its code, its answer and its picture."""
    before, code = code_of(name)
    with tempfile.TemporaryDirectory() as folder:
        facts = ran(name, Path(folder))
        size = drawn(Path(folder) / "report.html", FOLDER / f"{name}.png")
    content = {"before": before, "code": code, **facts, "version": __version__, "size": size}
    (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    console.say(f"{name}: {facts['seconds']} s")


def main(arguments: Sequence[str]) -> int:
    """Write the guides that are named, or all, or say which are out of date; return how many are."""
    if "--check" in arguments:
        for name in outdated():
            console.say(f"out of date: guide {name}; run python docs/guides.py")
        return len(outdated())
    FOLDER.mkdir(exist_ok=True)
    for name in arguments or EXAMPLES:
        write(name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
