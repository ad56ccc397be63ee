"""Arguments of a class or a function given by name in a run file, checked against its signature."""

import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pydantic import ConfigDict, ValidationError, create_model

from ._problems import problems

SIMPLE = (int, float, str, bool, types.NoneType)


def check_arguments(call: Callable, given: Mapping[str, Any], path: str, skip: Collection[str] = ()) -> list[str]:
    """What is wrong with `given` as arguments of `call`, one text for each problem; `path` is where they stand.

    Names are checked always, types where the annotation is a number, a text, true or false, or a choice of them.
    """
    hints = _hints(call)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(call).parameters.items():
        if name not in skip:
            hint = hints.get(name, Any)
            required = parameter.default is inspect.Parameter.empty
            fields[name] = (hint if _simple(hint) else Any, ... if required else None)
    settings = ConfigDict(extra="forbid", strict=True, protected_namespaces=())
    model = create_model(getattr(call, "__name__", "arguments"), __config__=settings, **fields)
    try:
        model.model_validate(dict(given))
    except ValidationError as error:
        return problems(error, model, path)
    return []


def _hints(call: Callable) -> dict[str, Any]:
    try:
        return typing.get_type_hints(call)
    except (NameError, TypeError):
        return {}


def _simple(hint: Any) -> bool:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(_simple(choice) for choice in typing.get_args(hint))
    return hint in SIMPLE or typing.get_origin(hint) is typing.Literal
