"""Options that take a number with a fraction: what is no share from 0 to 1 is refused in one line."""

from collections.abc import Iterator

import click
import pytest

from imharness.cli import cli


def number_options(command: click.Command, name: str = "harness") -> Iterator[tuple[str, click.Parameter]]:
    """Yield the name and the parameter of every option with a fractional number, of a command and its subcommands."""
    context = click.Context(command, info_name=name)
    for parameter in command.params:
        if isinstance(parameter.type, type(click.FLOAT)):
            yield f"{name} {parameter.opts[0]}", parameter
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            yield from number_options(below, f"{name} {word}")


def test_what_is_no_share_is_refused_in_one_line_by_every_option() -> None:
    options = dict(number_options(cli))
    assert {name.split()[-1] for name in options} >= {"--fail-above", "--cutoff", "--tolerance"}
    for name, parameter in options.items():
        for text in ("nan", "-nan", "inf", "-inf", "1e999", "2"):
            with pytest.raises(click.BadParameter) as caught:
                parameter.type.convert(text, parameter, None)
            assert "\n" not in caught.value.format_message(), name
        assert parameter.type.convert("0.5", parameter, None) == 0.5
