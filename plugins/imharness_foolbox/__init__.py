"""Attacks of the library foolbox (extra ``foolbox``); without it they say how to install it."""

PLUGIN_MODULES = ("attack",)
