"""Turns labels of components into names for readers: "harness/jpeg[quality=30]" becomes "JPEG (quality=30)".

Terminals, notebooks and pages show these names. Only first-party components, whose owner is "harness", get one: the
words of the label as the authors of the method spell them (`SPELLING`), the first one with a capital. Labels of other
owners stay as they are, because nobody but the owner knows how they are spelled.
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
"""A name, or a word of a name, in small letters -> how it is spelled."""
WHOLE = {
    "dp": "DensePure",
    "ms": "median smoothing",
    "none": "no defense",
    "nt": "norm training",
    "rs": "randomised smoothing",
}
"""Whole names -> how they are spelled; as words of longer names they are spelled otherwise."""
_MEASURES = ("fsim", "lpips", "mae", "ms-ssim", "mse", "psnr", "semsim", "ssim", "ssim-uniform7")
_MEASURE = re.compile(rf"(?<![\w/=\[`.-])({'|'.join(sorted(_MEASURES, key=len, reverse=True))})(?![\w/=\]`.-])")
"""The name of a measure as a word of its own, as in "psnr, worst attack", and not in "acme/psnr" or "metric=psnr"."""
_FIRST_PARTY = re.compile(rf"(?<![\w/.-]){OWNER}[a-z0-9][a-z0-9_-]*")
"""The label of a first-party component without its brackets."""
SIZE = re.compile(r"size=\d+")
"""A parameter that belongs to the name: the side of images, px."""
SMALL = "backbone=embedded"
"""A parameter that belongs to the name: a small network of this package stands in for the published one."""
STAND_IN = "stand-in"
_AT_ACCURACY_OF = ", stopped nearest to the accuracy of "
"""What stands between two components where training of the first was stopped at the accuracy of the second."""


@lru_cache(maxsize=1 << 14)
def brief(text: str) -> str:
    """Return a label, or a text with labels, as pages show it: first-party components and measures by their names.

    "harness/jpeg[quality=30] by psnr" becomes "JPEG (quality=30) by PSNR", and "harness/early-stopping, stopped nearest
    to the accuracy of harness/advreg[width=64]" becomes "Early stopping, at AdvReg’s accuracy".
    """
    pieces, at = [], 0
    for start, end in _labels(text):
        before, (name, settings) = text[at:start], _named(text[start:end])
        if before.endswith(_AT_ACCURACY_OF):
            pieces += [_with_measures(before.removesuffix(_AT_ACCURACY_OF)), f", at {name}’s accuracy"]
        else:
            pieces += [_with_measures(before), name + (f" ({', '.join(settings)})" if settings else "")]
        at = end
    return "".join([*pieces, _with_measures(text[at:])])


def _with_measures(text: str) -> str:
    return _MEASURE.sub(lambda match: SPELLING[match[0]], text)


def _labels(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each first-party label of a text starts and ends; its brackets belong to it."""
    end = 0
    for match in _FIRST_PARTY.finditer(text):
        if match.start() < end:  # in the brackets of the label before
            continue
        end = match.end()
        if text[end : end + 1] == "[":
            end = _after_bracket(text, end)
        yield match.start(), end


def _after_bracket(text: str, start: int) -> int:
    """Return the position after the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "[") - (text[i] == "]")
        if depth == 0:
            return i + 1
    return len(text)


def _named(label: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of a first-party component, with its size in pixels, and its other parameters.

    "harness/crop[backbone=embedded,size=48,seed=1]" gives "Crop 48 px" and ("stand-in", "seed=1").
    """
    bare, settings = apart(label.removeprefix(OWNER))
    size = next(filter(SIZE.fullmatch, settings), "")
    name = spelled(bare) + (f" {size.partition('=')[2]} px" if size else "")
    others = [parameter(setting) for setting in settings if setting not in (size, SMALL)]
    return name, (*([STAND_IN] if SMALL in settings else []), *others)


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
    """Return a label without its square brackets, and what they hold, split at its commas.

    "acme/push[a=(1, 2),b=[3,4]] within 8/255" gives "acme/push within 8/255" and ["a=(1, 2)", "b=[3,4]"].
    """
    bare, settings, depth = "", list[str](), 0  # depth: in how many brackets, the outermost of them square, a sign is
    for sign in label:
        closes = depth > 0 and sign in "])"
        if closes:
            depth -= 1
        if (depth == 0 and sign == "[") or (depth == 1 and sign == ","):
            settings.append("")
        elif depth > 0:
            settings[-1] += sign
        elif not closes:
            bare += sign
        if sign == "[" or (depth > 0 and sign == "("):
            depth += 1
    return bare, [setting.strip() for setting in settings if setting.strip()]


def without_parameters(label: str) -> str:
    """Return a label without parameters, but for those of first-party components that belong to the name.

    "harness/crop[size=48,seed=1] within 1/255" becomes "harness/crop[size=48] within 1/255".
    """
    names: list[str] = []
    for component in label.split(" + "):
        bare, settings = apart(component)
        naming = ",".join(setting for setting in settings if belongs_to_name(setting))
        word = _FIRST_PARTY.match(bare)
        names.append(f"{word[0]}[{naming}]{bare[word.end() :]}" if naming and word else bare)
    return " + ".join(names)


def belongs_to_name(setting: str) -> bool:
    """Return whether a parameter of a first-party component belongs to its name."""
    return setting == SMALL or SIZE.fullmatch(setting) is not None


def display_name(label: str) -> str:
    """Return what a label is called, without its parameters."""
    return short_names([label])[label]


def display_names(labels: Sequence[str]) -> dict[str, str]:
    """Return label -> its name, with parameters only where two labels would have the same name.

    A component that more than half of the labels have, such as the model in "model + defense", is left out.
    """
    counts = Counter(component for label in labels if " + " in label for component in label.split(" + "))
    most_common, times = counts.most_common(1)[0] if counts else ("", 0)
    shared = most_common if len(labels) > 1 and 2 * times > len(labels) else ""
    shortened = {
        label: " + ".join(component for component in label.split(" + ") if component != shared) or label
        for label in labels
    }
    names = short_names(list(dict.fromkeys(shortened.values())))
    return {label: names[short] for label, short in shortened.items()}


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
