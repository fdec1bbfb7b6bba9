"""Options of executors: a package declares them as a model, and the commands that compute take them as flags.

The model is the attribute `settings` of the object that the executor's entry point names. Each field becomes an option
with the field's name and description. A field with the name of an option of the command gets the value of that option.
"""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource
from pydantic import BaseModel, ValidationError

from imharness.cli import console
from imharness.errors import PluginError, UsageError
from imharness.running.executor import executor_names, executor_offer


class ExecutorOption(click.Option):
    """An option that only one executor takes."""

    executor = ""


def models() -> dict[str, type[BaseModel]]:
    """Return name -> settings of the installed executors; those that do not load are reported and left out."""
    by_executor: dict[str, type[BaseModel]] = {}
    for name in executor_names():
        try:
            model = executor_offer(name).settings
        except PluginError as error:
            console.warn(str(error))
        else:
            by_executor |= {} if model is None else {name: model}
    return by_executor


def executor_options(command: click.Command) -> click.Command:
    """Add the options of all executors to a command after its option ``--executor``, and return the command."""
    index = 1 + next(i for i, option in enumerate(command.params) if option.name == "executor")
    for executor, model in models().items():
        taken = {option.name for option in command.params}
        for name, field in model.model_fields.items():
            extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
            if name not in taken:
                states_default = "Default:" in str(field.description) or field.default is None
                default = "" if states_default else f" Default: {field.default:g}."
                text = f"{field.description}{default} (--executor {executor})"
                flag, metavar = "--" + name.replace("_", "-"), str(extra.get("metavar", "TEXT"))
                option = ExecutorOption([flag], metavar=metavar, help=text)
                option.executor = executor
                command.params.insert(index, option)
                index += 1
    return command


def executor_settings(context: click.Context) -> dict[str, Any]:
    """Return the validated settings that a command was given for its executor.

    Raises `UsageError` for an invalid value, and for an option of another executor.
    """
    values = {
        name: value
        for name, value in context.params.items()
        if value is not None and context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    executor = context.params["executor"]
    for option in context.command.params:
        if isinstance(option, ExecutorOption) and option.name in values and option.executor != executor:
            raise UsageError(f"{option.opts[0]} is an option of --executor {option.executor}")
    model = models().get(executor)
    if model is None or values.get("workers") == 0:
        return {}
    try:
        chosen = {name: values[name] for name in model.model_fields if name in values}
        return model.model_validate(chosen).model_dump(include=set(chosen))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise UsageError(
            f"--{str(problem['loc'][0]).replace('_', '-')}: {problem['msg']} (got {problem['input']!r})"
        ) from None
