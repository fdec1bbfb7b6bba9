"""The metrics of the library pyiqa (extra ``pyiqa``); without it they say how to install it."""

PLUGIN_MODULES = ("metrics",)
