"""Write what of one profile another leaves out, and why: ``python docs/left_out.py official official-small``.

A component that needs files gives the reason itself, with the command that gets them; `docs/generate.py` asks for it
where no files are. `TOO_MUCH` has the reasons of those that need none.
"""

import re
import sys
from collections.abc import Iterator

from imharness.cli import console
from imharness.components.registry import Registry, installed
from imharness.contracts.component import Component
from imharness.errors import Unavailable
from imharness.planning.plan import named
from imharness.planning.profile import Profile
from imharness.planning.profiles import load_profile

TOO_MUCH = {
    "harness/ats": "a policy more is as many gradients to invert again; the default policy is here",
    "harness/wrn": "a pass takes 450 times the operations of one through the small network that takes its place",
    "harness/resnet20": "a pass takes 70 times the operations of one through LeNet at 18 px",
    "harness/densenet121": "a pass takes 1,500 times the operations of one through LeNet at 18 px",
}
"""Why a component that needs no file is too much for two cores, by id."""


ABSENT = re.compile(r" (is|are) not (on this machine|installed)$")
EXTRAS = ("pyiqa", "spandrel_extra_arches")
"""Packages of extras; components that need them say so, wherever the page is made."""


def chosen(profile: Profile, registry: Registry) -> dict[tuple[str, str, str], Component]:
    """Return the components that a profile selects, by track, kind and label, before it sets their parameters."""
    return {
        (track, kind, component.label): component
        for track, selection in profile.tracks.items()
        for kind, names in selection.select.items()
        for component in named(registry, kind, names)
    }


def left_out(whole: str, small: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the track, the kind and the label of what `small` leaves out of `whole`, why, and how to get it."""
    registry = installed()
    selected = chosen(load_profile(small), registry)
    for (track, kind, label), component in chosen(load_profile(whole), registry).items():
        if (track, kind, label) in selected:
            continue
        try:
            component.require()
        except Unavailable as error:
            yield track, kind, label, f"needs {ABSENT.sub('', error.reason)}", error.remedy
        else:
            run = f"harness run --profile {whole} --track {track.removeprefix('harness/')} --store store"
            yield track, kind, label, TOO_MUCH[component.info.id], run


def main(whole: str, small: str) -> None:
    """Print a line of a table for each component, as where no extra is installed."""
    sys.modules.update(dict.fromkeys(EXTRAS))
    console.say("| track | left out | why | get it with |")
    console.say("|---|---|---|---|")
    for track, kind, label, why, remedy in left_out(whole, small):
        console.say(f"| {track.removeprefix('harness/')} | {kind} `{label}` | {why} | {remedy} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
