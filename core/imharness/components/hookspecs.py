"""The hook that a plugin module implements.

A package names one entry point in the group ``imharness``: a module that implements the hook, or a package whose
``PLUGIN_MODULES`` lists the modules (or packages of modules) that do.
"""

import pluggy

from imharness.components.component import Component

API_VERSION = "2.0"
"""Version of the public modules, MAJOR.MINOR; a plugin module may ask for one with ``IMHARNESS_API``."""
PROJECT = "imharness"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def components() -> list[Component]:
    """Return the components that this module offers.

    They are instances, with the parameters they are to have by default; the same class may be returned several times
    with other parameters.
    """
