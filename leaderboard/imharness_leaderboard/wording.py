"""How labels, sizes and lists are written: the names by which readers know components, such as "JPEG (quality 30)".

A name is its words with the spelling of their authors (`SPELLING`), the first one with a capital. Labels of other
owners stay as they are: nobody but their authors knows how they are spelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from markupsafe import Markup, escape

from imharness.results.boards import Board

OWNER = "harness/"
"""The owner of the first-party components."""
_SPELLED = (
    "AdvReg APGD ATS CAFE cAdv CNN ConvNet8 DDRS DiffJPEG DiffPure DISCO DLG DMS DP-SGD DreamSim DRS FACPA FSIM "
    "GradAttack iDLG InstaHide InvGrad JPEG KonIQ L2 LeNet LipSim LiRA LPIPS MADC MAE MemGuard MLP MPRNet MS-SSIM MSE "
    "NES Patch-RS PSNR QMIA R-LPIPS Real-ESRGAN RMIA SemSim SSAH SSIM SSIM-uniform7 StAdv UAP"
)
SPELLING = {word.lower(): word for word in _SPELLED.split()} | {"ifgsm": "I-FGSM", "linf": "L∞"}
"""How names, or words of names, are spelled."""
WHOLE = {
    "dp": "DensePure",
    "ms": "median smoothing",
    "none": "no defense",
    "nt": "norm training",
    "rs": "randomised smoothing",
}
"""Names that are spelled so only where they are no word of a longer one."""
_MEASURES = ("fsim", "lpips", "mae", "ms-ssim", "mse", "psnr", "semsim", "ssim", "ssim-uniform7")
_ALONE = re.compile(rf"(?<![\w/=\[`.-])({'|'.join(sorted(_MEASURES, key=len, reverse=True))})(?![\w/=\]`.-])")
_START = re.compile(rf"(?<![\w/.-]){OWNER}(?=[a-z0-9])")
_ID = re.compile(r"[a-z0-9][a-z0-9_-]*")
SIZE = re.compile(r"size=\d+")
"""A parameter that belongs to the name: the side of images, px."""
_PLACED = ", stopped nearest to the accuracy of "


def brief(text: str) -> str:
    """Return a label, or a text with labels, as pages show it: first-party components and measures by their names."""
    out, at = [], 0
    for start, end in _labels(text):
        before, (name, parts) = text[at:start], name_of(text[start:end])
        if before.endswith(_PLACED):
            before, name, parts = before.removesuffix(_PLACED), f", at {name}’s accuracy", ()
        out += [_ALONE.sub(_spelled, before), name + (f" ({', '.join(parts)})" if parts else "")]
        at = end
    return "".join([*out, _ALONE.sub(_spelled, text[at:])])


def _spelled(found: re.Match[str]) -> str:
    return SPELLING[found[0]]


def _labels(text: str) -> Iterator[tuple[int, int]]:
    """Yield where first-party labels start and end in a text, with what their brackets hold."""
    end = 0
    for found in _START.finditer(text):
        if found.start() < end:
            continue
        word = _ID.match(text, found.end())
        assert word is not None  # `_START` looks at the character after it
        end = word.end()
        if text[end : end + 1] == "[":
            end = _closed(text, end)
        yield found.start(), end


def _closed(text: str, start: int) -> int:
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "[") - (text[i] == "]")
        if depth == 0:
            return i + 1
    return len(text)


def name_of(label: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of a first-party component, with its size in pixels, and its other parameters in words."""
    bare, parts = apart(label.removeprefix(OWNER))
    size = next(filter(SIZE.fullmatch, parts), "")
    name = spelled(bare) + (f" {size.partition('=')[2]} px" if size else "")
    return name, tuple(in_words(part) for part in parts if part != size)


@cache
def spelled(name: str) -> str:
    """Return the name of a component as its authors spell it; `name` has neither owner nor parameters."""
    words = name.split("-")
    between = "-" if all(word in SPELLING for word in words) else " "
    text = WHOLE.get(name) or SPELLING.get(name) or between.join(SPELLING.get(word, word) for word in words)
    first = text.partition(" ")[0]
    return text if first != first.lower() else text[:1].upper() + text[1:]


def in_words(parameter: str) -> str:
    """Return a parameter in words, as in "learning rate 0.05" for ``learning_rate=0.05``."""
    name, sign, value = parameter.partition("=")
    value = {"True": "yes", "False": "no"}.get(value, brief(value))
    return f"{name.replace('_', ' ')}{' ' if sign else ''}{value}"


ATTACKERS = {
    "unaware": "does not know the defense",
    "fixed": "does not know the defense",
    "aware": "knows the defense",
    "adaptive": "knows the defense",
}
"""What an attacker knows, as data have it -> as pages say it."""


def facet_text(name: str, value: str) -> str:
    """Return the value of a facet, such as an attack, a data set or what the attacker knows, as pages show it."""
    return ATTACKERS.get(value, value) if name == "attacker" else brief(value)


PARTS = re.compile(r"(?<=[/,=_+])|(?=\[)")
"""Where a label may be broken."""
ON_AXIS = 72
"""The longest line of a label on an axis, in letters: a longer one would leave the picture no width."""


def breaking(label: str) -> Markup:
    """Return a label as pages show it, as escaped HTML that may be broken between its parts but not within a word."""
    return Markup("<wbr>").join(PARTS.split(brief(label)))


def on_axis(label: str) -> str:
    """Return a label as pictures show it beside an axis: in lines of at most `ON_AXIS` letters, where parts allow."""
    lines = [""]
    for part in PARTS.split(brief(label)):
        if lines[-1] and len(lines[-1]) + len(part) > ON_AXIS:
            lines.append("")
        lines[-1] += part if lines[-1] else part.lstrip()
    return "\n".join(lines)


def apart(label: str) -> tuple[str, list[str]]:
    """Return a label without its square brackets, and the parts of what they hold, split at its commas.

    What follows the brackets stays, such as " within 1/255"; brackets within brackets belong to a part.
    """
    bare, parts, depth = "", list[str](), 0
    for sign in label:
        closed = depth > 0 and sign in "])"
        depth -= closed
        if (depth == 0 and sign == "[") or (depth == 1 and sign == ","):
            parts.append("")
        elif depth:
            parts[-1] += sign
        elif not closed:
            bare += sign
        depth += sign == "[" or (depth > 0 and sign == "(")
    return bare, [part.strip() for part in parts if part.strip()]


def short(labels: Sequence[str]) -> list[str]:
    """Return the names of labels, with parameters only where another one has the same name."""
    bare = {label: brief(without_parameters(label)) for label in labels}
    often = list(bare.values())
    return [bare[label] if often.count(bare[label]) == 1 else brief(label) for label in labels]


def without_parameters(label: str) -> str:
    """Return a label without parameters, but for a size, which belongs to the name."""
    found: list[str] = []
    for part in label.split(" + "):
        bare, inside = apart(part)
        size = next(filter(SIZE.fullmatch, inside), "")
        start = _START.match(bare)
        found.append(bare if not size or start is None else _with_size(bare, start.end(), size))
    return " + ".join(found)


def _with_size(bare: str, start: int, size: str) -> str:
    word = _ID.match(bare, start)
    end = word.end() if word else len(bare)
    return f"{bare[:end]}[{size}]{bare[end:]}"


def last_sentence(text: str) -> str:
    """Return the last sentence of a text as a part of another one: without its full stop and its capital."""
    said = text.removesuffix(".").rpartition(". ")[2]
    return said[:1].lower() + said[1:]


def human_size(size: int) -> str:
    """Return a number of bytes in B, kB or MB."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"


def partial(board: Board) -> str:
    """Return how much of a run its tables show, as in "312 of 1,877 cells"; empty where nothing is waiting."""
    return f"{board.cells_done:,} of {board.cells_done + board.waiting:,} cells" if board.waiting else ""


def moment(stamp: str) -> str:
    """Return a moment in ISO 8601, to the minute where it is in UTC, as in "2026-01-02 13:05 UTC"."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:[\d.]+)?(\+00:00|Z)", stamp)
    return f"{found[1]} {found[2]} UTC" if found else stamp


def with_code(text: str) -> Markup:
    """Return escaped HTML in which text between backquotes is marked as code."""
    return Markup(re.sub(r"(`+)(.+?)\1", r"<code>\2</code>", str(escape(text)), flags=re.DOTALL))
