"""`harness man`: a manual page of all commands, made from what the commands say of themselves."""

from __future__ import annotations

from collections.abc import Iterator

import click

from imharness.results.version import __version__

EXITS = (("0", "All fine."), ("1", "Some cells failed, or something could not be done."), ("2", "Wrong usage."),
         ("130", "Interrupted; everything finished is kept."))  # fmt: skip
VARIABLES = (
    ("HARNESS_ASSETS", "Folders with weights and data, with colons between them."),
    ("COLUMNS", "Width of tables that do not go to a terminal."),
    ("GITHUB_ACTIONS", "Where it is true, harness run prints an annotation for each cell that failed."),
)


@click.command()
@click.pass_context
def man(context: click.Context) -> None:
    """Print the manual page: harness man > harness.1, and look at it with man ./harness.1."""
    root = context.find_root()
    click.echo("\n".join(page(root.command)))


def page(command: click.Command) -> Iterator[str]:
    """Yield the lines of a manual page in roff."""
    top = click.Context(command, info_name="harness", max_content_width=100)
    yield f'.TH HARNESS 1 "" "image\\-privacy\\-harness {roff(__version__)}" "User Commands"'
    yield from (".SH NAME", f"harness \\- {_sentence(command)}")
    yield from (".SH SYNOPSIS", ".B harness", roff(_pieces(top)))
    yield ".SH COMMANDS"
    for context in _commands(top):
        yield from _section(context)
    yield ".SH ENVIRONMENT"
    for name, text in VARIABLES:
        yield from (".TP", f".B {roff(name)}", roff(text))
    yield ".SH EXIT STATUS"
    for code, text in EXITS:
        yield from (".TP", f".B {code}", roff(text))


def _commands(context: click.Context) -> Iterator[click.Context]:
    """Yield a context for each command below one that does something, depth first."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    if context.parent is not None and command.invoke_without_command:
        yield context
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None and not below.hidden:
            yield from _commands(click.Context(below, info_name=name, parent=context))


def _section(context: click.Context) -> Iterator[str]:
    command = context.command
    yield f'.SS "{roff(context.command_path)} {roff(_pieces(context))}"'
    paragraphs = (command.help or "").replace("\b", "").strip().split("\n\n")
    for number, text in enumerate(filter(None, paragraphs)):
        yield from ([".PP"] if number else []) + [roff(" ".join(text.split()))]
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record is not None and "--help" not in param.opts:
            yield from (".TP", f".B {roff(record[0])}", roff(" ".join(record[1].split())) or "\\&")


def _pieces(context: click.Context) -> str:
    return " ".join(context.command.collect_usage_pieces(context))


def _sentence(command: click.Command) -> str:
    return roff((command.help or "").partition("\n")[0].rstrip("."))


def roff(text: str) -> str:
    """Return a text that roff shows as it is: nothing in it is a request, and every sign is ASCII."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("'", "\\(aq")
    plain = "".join(sign if sign.isascii() else f"\\[u{ord(sign):04X}]" for sign in escaped)
    return f"\\&{plain}" if plain.startswith(".") else plain
