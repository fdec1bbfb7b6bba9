"""Attacks of the library torchattacks (extra ``torchattacks``); without it they say how to install it."""

PLUGIN_MODULES = ("attack",)
