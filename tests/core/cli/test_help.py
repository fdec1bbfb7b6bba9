"""`--help` of every group and command: lines that fit, whole sentences, named values, defaults; wrong words."""

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from imharness.cli import cli
from imharness.cli.options import Choice, Group

BARE = {"TEXT", "INTEGER", "FLOAT", "RANGE", "PATH", "FILENAME", "DIRECTORY", "BOOLEAN"}
"""Names that click gives to values without a name of their own."""
OPTIONAL = ("Also write ", "Compare ", "Compute the secret ", "Draw ", "Flag ", "Get ", "Look for ", "Only ", "Write ")
"""First words of the help of options that do nothing unless they are given: they need no default."""


def walk(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of every group and command, each group before its commands."""
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            below = context.command.get_command(context, name)
            assert below is not None
            yield from walk(click.Context(below, info_name=name, parent=context))


COMMANDS = list(walk(click.Context(cli, info_name="harness", **cli.context_settings)))
OPTIONS = [
    (context.command_path, option)
    for context in COMMANDS
    for option in context.command.params
    if isinstance(option, click.Option) and "--version" not in option.opts
]


def record(option: click.Option) -> tuple[str, str]:
    """Return the two columns of an option's line: its names with its value, and its text."""
    help_record = option.get_help_record(click.Context(click.Command("x")))
    assert help_record is not None
    return help_record


@pytest.mark.parametrize("width", [80, 200])
def test_no_line_is_cut_or_too_long(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for context in COMMANDS:
        text = context.get_help().partition("\n\n")[2]  # after the usage line, which contains "..."
        assert max(map(len, text.splitlines())) <= min(width, 100), context.command_path
        assert not re.search(r"(?<!p1, )\.\.\.$", text, re.MULTILINE), context.command_path  # "p0, p1, ..." is not cut


def test_a_group_lists_its_own_commands_with_their_first_sentences() -> None:
    listed = {
        context.command_path: " ".join(context.get_help().partition("Show this message and exit.")[2].split())
        for context in COMMANDS
        if isinstance(context.command, click.Group)
    }
    seen = dict[object, str]()
    for context in COMMANDS[1:]:
        assert context.parent is not None
        assert isinstance(context.parent.command, Group)
        first = " ".join((context.command.help or "").partition("\n\n")[0].split())
        assert f"{context.info_name} {first.rstrip('.')}" in listed[context.parent.command_path], context.command_path
        other = seen.setdefault(context.command.callback, context.command_path)
        assert other == context.command_path, f"{other} is {context.command_path}, too"


def test_every_option_is_described_in_a_sentence() -> None:
    for path, option in OPTIONS:
        text = option.help or ""
        assert re.fullmatch(r"[A-Z-].*[.)]", text), (path, option.opts, text)
        if option.multiple:
            assert "several times" in text, (path, option.opts)


def test_every_value_has_a_name_and_wrong_words_get_the_nearest() -> None:
    for path, option in OPTIONS:
        if not option.is_flag:
            left_column = record(option)[0]
            assert not BARE & set(re.findall(r"\w+", left_column)) or option.metavar, (path, left_column)
        assert not isinstance(option.type, click.Choice) or isinstance(option.type, Choice), (path, option.opts)


def test_every_option_says_what_holds_without_it() -> None:
    for path, option in OPTIONS:
        text = record(option)[1]
        if option.is_flag or option.required or option.multiple or text.startswith(OPTIONAL):
            continue
        assert "[default: " in text or "Default: " in text, (path, option.opts, text)


def test_every_argument_stands_in_the_description() -> None:
    for context in COMMANDS:
        for argument in context.command.params:
            if isinstance(argument, click.Argument) and not isinstance(argument.type, click.Choice):
                words = re.findall(r"[A-Z]+", " ".join(argument.get_usage_pieces(context)))
                text = context.command.help or ""
                assert any(re.search(rf"\b{word}\b", text) for word in words), (context.command_path, words)


def test_options_of_one_name_take_the_same_values() -> None:
    values = dict[str, tuple[str, str]]()
    for path, option in OPTIONS:
        name = option.opts[0]
        if name in ("--out", "--to", "--json", "--kind"):  # a file here, a folder there, each named
            continue
        usage = "flag" if option.is_flag else record(option)[0]
        first, usual = values.setdefault(name, (path, usage))
        assert usage == usual, f"{name} of {path}, and of {first}"


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (("results", "export", "--format", "latx"), "latex"),
        (("run", "--all", "--precision", "Strikt"), "strict"),
        (("run", "--all", "--progress", "jsn"), "json"),
        (("completion", "bsh"), "bash"),
        (("annotate", "--kind", "clas"), "class"),
        (("submissions", "decide", "x", "withdrwn", "--reason", "y"), "withdrawn"),
        (("submissions", "validat", "x"), "validate"),
        (("iqa", "calibrat"), "calibrate"),
    ],
)
def test_a_wrong_word_is_answered_by_the_nearest(words: tuple[str, ...], nearest: str) -> None:
    ran = CliRunner().invoke(cli, words, prog_name="harness")
    assert ran.exit_code == 2
    assert f"Did you mean '{nearest}'?" in ran.output


def test_the_first_level_is_in_sections_and_every_command_in_one() -> None:
    text = CliRunner().invoke(cli, ["--help"]).output
    titles = re.findall(r"^([A-Z][a-z ]+):$", text, re.MULTILINE)
    assert titles[:6] == ["Options", "Run", "Look", "Your own", "Leaderboard keepers", "Machine"]
    context = click.Context(cli)
    for name in cli.list_commands(context):
        assert len(re.findall(rf"^  {name} ", text, re.MULTILINE)) == 1, name
