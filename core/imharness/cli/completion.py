"""`harness completion`: lets a shell complete commands, options and names of components, without loading torch."""

from __future__ import annotations

from contextlib import suppress

import click
from click.shell_completion import CompletionItem, get_completion_class
from click.types import StringParamType

from imharness.cli.options import Choice
from imharness.contracts.component import KINDS
from imharness.errors import HarnessError
from imharness.results.labels import id_of

VARIABLE = "_HARNESS_COMPLETE"
"""The environment variable that the shell sets when it asks for completions."""
SHELLS = ("bash", "zsh", "fish")


class ComponentName(StringParamType):
    """The name of a component of `kind`, or of any kind; completed from the list that an earlier command kept.

    `files` says that the name of a file is possible, too.
    """

    def __init__(self, kind: str = "", *, files: bool = False) -> None:
        self._kind, self._files = kind, files

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the methods that begin like the text, each once, or ids with their owner if it has a slash."""
        from imharness.cli.index import kept

        items = dict[str, CompletionItem]()
        for one in kept():
            id = id_of(one.label)
            name = id if "/" in incomplete else id.rpartition("/")[2]
            if self._kind in ("", one.kind) and name.startswith(incomplete):
                items.setdefault(name, CompletionItem(name, help=one.summary))
        if self._files and not items:
            return [CompletionItem(incomplete, type="file")]
        return [items[name] for name in sorted(items)]


def with_names(command: click.Command) -> click.Command:
    """Let options named after a kind of component complete names, in this command and those below it; return it."""
    for param in command.params:
        kinds = {option.removeprefix("--") for option in param.opts}
        if kinds & set(KINDS):
            param.type = ComponentName(*kinds & set(KINDS))
        elif isinstance(param, click.Argument) and (param.metavar or "").startswith("METRIC"):
            param.type = ComponentName("metric", files=True)
        elif "component" in kinds:
            param.type = ComponentName()
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        with_names(below)
    return command


@click.command()
@click.argument("shell", type=Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that lets a shell complete commands, options and names of components.

    bash: harness completion bash > ~/.local/share/bash-completion/completions/harness

    zsh: harness completion zsh > ~/.zfunc/_harness, with ~/.zfunc in fpath

    fish: harness completion fish > ~/.config/fish/completions/harness.fish
    """
    from imharness.cli import cli
    from imharness.cli.index import index

    with suppress(HarnessError):
        index()  # this keeps the list that names are completed from
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(cli, {}, "harness", VARIABLE).source())
