"""The names by which readers know components, such as "JPEG (quality=30)", in terminals, notebooks and on pages.

A name is its words with the spelling of their authors (`SPELLING`), the first one with a capital. Labels of other
owners stay as they are: nobody but their authors knows how they are spelled.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

OWNER = "harness/"
"""The owner of the first-party components."""
_SPELLED = (
    "AdvReg APGD ATS CAFE cAdv CNN ConvNet8 DDRS DiffJPEG DiffPure DISCO DLG DMS DP-SGD DreamSim DRS FACPA FSIM "
    "GradAttack iDLG InfoRMIA InstaHide InvGrad JPEG KonIQ L2 LeNet LipSim LiRA LPIPS MADC MAE MemGuard MILO MLP "
    "MPRNet MS-SSIM MSE NES NIGHTS Patch-RS PSNR QMIA R-CLIP R-LPIPS Real-ESRGAN RMIA SemSim SSAH SSIM "
    "SSIM-uniform7 StAdv UAP"
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
SMALL = "backbone=embedded"
"""A parameter that belongs to the name: a small network of this package stands in for the published one."""
STAND_IN = "stand-in"
_PLACED = ", stopped nearest to the accuracy of "


@lru_cache(maxsize=1 << 14)
def brief(text: str) -> str:
    """Return a label, or a text with labels, as pages show it: first-party components and measures by their names."""
    out, at = [], 0
    for start, end in _labels(text):
        before, (name, details) = text[at:start], _named(text[start:end])
        if before.endswith(_PLACED):
            before, name, details = before.removesuffix(_PLACED), f", at {name}’s accuracy", ()
        out += [_ALONE.sub(_spelled, before), name + (f" ({', '.join(details)})" if details else "")]
        at = end
    return "".join([*out, _ALONE.sub(_spelled, text[at:])])


def _spelled(match: re.Match[str]) -> str:
    return SPELLING[match[0]]


def _labels(text: str) -> Iterator[tuple[int, int]]:
    """Yield where first-party labels start and end in a text, with what their brackets hold."""
    end = 0
    for match in _START.finditer(text):
        if match.start() < end:
            continue
        word = _ID.match(text, match.end())
        assert word is not None  # `_START` looks at the character after it
        end = word.end()
        if text[end : end + 1] == "[":
            end = _closed(text, end)
        yield match.start(), end


def _closed(text: str, start: int) -> int:
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "[") - (text[i] == "]")
        if depth == 0:
            return i + 1
    return len(text)


def _named(label: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of a first-party component, with its size in pixels, and its other parameters.

    The first of these is `STAND_IN` where a small network stands in for the published one.
    """
    bare, details = apart(label.removeprefix(OWNER))
    size = next(filter(SIZE.fullmatch, details), "")
    name = spelled(bare) + (f" {size.partition('=')[2]} px" if size else "")
    others = [parameter(detail) for detail in details if detail not in (size, SMALL)]
    return name, (*([STAND_IN] if SMALL in details else []), *others)


@cache
def spelled(name: str) -> str:
    """Return the name of a component as its authors spell it; `name` has neither owner nor parameters."""
    words = name.split("-")
    between = "-" if all(word in SPELLING for word in words) else " "
    text = WHOLE.get(name) or SPELLING.get(name) or between.join(SPELLING.get(word, word) for word in words)
    first = text.partition(" ")[0]
    return text if first != first.lower() else text[:1].upper() + text[1:]


def parameter(setting: str) -> str:
    """Return a parameter as it is written, with the names of components that it holds, as in "top_k=3"."""
    name, sign, value = setting.partition("=")
    return f"{name}{sign}{brief(value)}"


def apart(label: str) -> tuple[str, list[str]]:
    """Return a label without its square brackets, and the parts of what they hold, split at its commas.

    What follows the brackets stays, such as " within 1/255"; brackets within brackets belong to a part.
    """
    bare, details, depth = "", list[str](), 0
    for sign in label:
        closed = depth > 0 and sign in "])"
        depth -= closed
        if (depth == 0 and sign == "[") or (depth == 1 and sign == ","):
            details.append("")
        elif depth:
            details[-1] += sign
        elif not closed:
            bare += sign
        depth += sign == "[" or (depth > 0 and sign == "(")
    return bare, [detail.strip() for detail in details if detail.strip()]


def short(labels: Sequence[str]) -> list[str]:
    """Return the names of labels in their order, with parameters only where another one has the same name.

    Unlike in `short_names`, sizes and stand-ins stay.
    """
    bare = {label: brief(without_parameters(label)) for label in labels}
    often = list(bare.values())
    return [bare[label] if often.count(bare[label]) == 1 else brief(label) for label in labels]


def without_parameters(label: str) -> str:
    """Return a label without parameters, but for a size and a stand-in, which belong to the name."""
    names: list[str] = []
    for piece in label.split(" + "):
        bare, inside = apart(piece)
        naming = [detail for detail in inside if belongs_to_name(detail)]
        start = _START.match(bare)
        names.append(bare if not naming or start is None else _with_settings(bare, start.end(), naming))
    return " + ".join(names)


def belongs_to_name(setting: str) -> bool:
    """Return whether a parameter of a first-party component belongs to its name."""
    return setting == SMALL or SIZE.fullmatch(setting) is not None


def _with_settings(bare: str, start: int, settings: Sequence[str]) -> str:
    word = _ID.match(bare, start)
    end = word.end() if word else len(bare)
    return f"{bare[:end]}[{','.join(settings)}]{bare[end:]}"


def display_name(label: str) -> str:
    """Return what a label is called, without its parameters."""
    return short_names([label])[label]


def display_names(labels: Sequence[str]) -> dict[str, str]:
    """Return what each label is called, with its parameters only where another one has the same name.

    The part that most labels of several components have in common, such as the model, is left out.
    """
    counts = Counter(component for label in labels if " + " in label for component in label.split(" + "))
    common, times = counts.most_common(1)[0] if counts else ("", 0)
    shared = common if len(labels) > 1 and 2 * times > len(labels) else ""
    cut = {
        label: " + ".join(component for component in label.split(" + ") if component != shared) or label
        for label in labels
    }
    names = short_names(list(dict.fromkeys(cut.values())))
    return {label: names[shortened] for label, shortened in cut.items()}


NO_ATTACK = "no attack"
NO_DEFENSE = "no defense"


def attack_names(labels: Sequence[str]) -> dict[str, str]:
    """Return what each attack is called; "none" is no attack."""
    return {label: NO_ATTACK if label == "none" else name for label, name in display_names(labels).items()}


def in_names(text: str, names: Mapping[str, str]) -> str:
    """Return a sentence with every label of `names` replaced by what it is called."""
    pattern = "|".join(re.escape(label) for label in sorted(names, key=len, reverse=True))
    replaced = re.sub(rf"(?<![\w/])(?:{pattern})(?![\w\[/-])", lambda match: names[match[0]], text) if names else text
    return brief(replaced)


_OWNED = re.compile(r"([^\s/]+)/(.+)")
"""An owner and a name; a slash after the first word, as in "ifgsm within 1/255", belongs to the name."""


@dataclass(frozen=True)
class Name:
    """The parts of a label: ``acme/blur[radius=2]`` is `owner` acme, `short` blur and one of the `chips`, "radius=2".

    The owner of first-party components is not named. A label of several components has the names of all.
    """

    owner: str
    short: str
    chips: tuple[str, ...]


def name_of(label: str) -> Name:
    """Return the parts of a label."""
    chips = [
        parameter(chip)
        for component in label.split(" + ")
        for chip in apart(component)[1]
        if not (component.startswith(OWNER) and belongs_to_name(chip))
    ]
    bare = brief(without_parameters(label)).strip() or label
    owned = _OWNED.fullmatch(bare)
    if " + " in bare or owned is None:
        return Name("", bare, tuple(chips))
    return Name(owned[1], owned[2], tuple(chips))


def short_names(labels: Sequence[str]) -> dict[str, str]:
    """Return each label's short name, with its parameters where another one has the same name."""
    names = {label: name_of(label) for label in labels}
    shorts = [name.short for name in names.values()]
    return {
        label: name.short if shorts.count(name.short) == 1 or not name.chips else _with_chips(name)
        for label, name in names.items()
    }


def _with_chips(name: Name) -> str:
    chips = ", ".join(name.chips)
    return f"{name.short[:-1]}, {chips})" if name.short.endswith(")") else f"{name.short} ({chips})"
