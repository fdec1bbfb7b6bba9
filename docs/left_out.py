"""Print the components that a profile selects and a smaller one leaves out, with the reasons, as a table.

    python docs/left_out.py official official-small

A component that needs files states the reason and the command that gets them, because `docs/generate.py` runs this
script without any files. `TOO_MUCH` has the reasons for components that need no files.
"""

import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

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
"""Id of a component that needs no file -> why it is too much for two cores."""
ABSENT = re.compile(r" (is|are) not (on this machine|installed)$")
"""The end of the reason of `Unavailable`, which is replaced by "needs" at the beginning."""
EXTRAS = ("pyiqa", "spandrel_extra_arches")
"""Packages of extras. They count as not installed, so that the page is the same on every machine."""


class LeftOut(NamedTuple):
    """A component that the smaller profile leaves out: why, and the command that gets or runs it."""

    track: str
    kind: str
    label: str
    why: str
    command: str


def chosen(profile: Profile, registry: Registry) -> dict[tuple[str, str, str], Component]:
    """Return (track, kind, label) -> component for all that a profile selects, before it sets their parameters."""
    return {
        (track, kind, component.label): component
        for track, selection in profile.tracks.items()
        for kind, names in selection.select.items()
        for component in named(registry, kind, names)
    }


def left_out(whole: str, small: str) -> Iterator[LeftOut]:
    """Yield the components that the profile `whole` selects and the profile `small` does not."""
    registry = installed()
    selected = chosen(load_profile(small), registry)
    for (track, kind, label), component in chosen(load_profile(whole), registry).items():
        if (track, kind, label) in selected:
            continue
        try:
            component.require()
        except Unavailable as error:
            yield LeftOut(track, kind, label, f"needs {ABSENT.sub('', error.reason)}", error.remedy)
        else:
            run = f"harness run --profile {whole} --track {track.removeprefix('harness/')} --store store"
            yield LeftOut(track, kind, label, TOO_MUCH[component.info.id], run)


def main(whole: str, small: str) -> None:
    """Print a line of a table for each component that is left out."""
    sys.modules.update(dict.fromkeys(EXTRAS))  # an import of a module that is None fails
    console.say("| track | left out | why | get it with |")
    console.say("|---|---|---|---|")
    for item in left_out(whole, small):
        track = item.track.removeprefix("harness/")
        console.say(f"| {track} | {item.kind} `{item.label}` | {item.why} | {item.command} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
