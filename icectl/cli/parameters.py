"""What a command takes, declared once: read by the parser, `--help`, man pages, completions.

    name: Annotated[str, Argument("NAME", help="...")]            required, since no default
    ref: Annotated[str, Argument("REF", help="...")] = "main"
    number: Annotated[int | None, Option("--number", "-n", metavar="COUNT", help="...")] = None
    paths: Annotated[list[str], Option("--path", metavar="PATH", help="...")] = ()   repeatable
    force: Annotated[bool, Option("--force", help="...")] = False

Types are str, int, float, bool (a flag), and lists of them; the parser here understands
every correct command line. Help and the diagnosis of a wrong one are typer's, which is not
imported before: with pydantic behind it, it costs four times what the rest of icectl does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from icectl.records import KW_ONLY, dataclass


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    short: str = ""
    _: KW_ONLY
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    count: bool = False
    """An integer that says how often the option was given."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, self.short) if self.short else (self.name,)


@dataclass(frozen=True, slots=True)
class Argument:
    metavar: str
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    declaration: Option | Argument
    type: type
    multiple: bool
    required: bool
    default: Any

    @property
    def is_switch(self) -> bool:
        counts = isinstance(self.declaration, Option) and self.declaration.count
        return self.type is bool or counts


class NotUnderstoodError(Exception):
    """The command line is wrong, or asks for help."""


def read_parameters(body: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a command's body, all but the context that comes first."""
    annotations = get_type_hints(body, include_extras=True)
    names = body.__code__.co_varnames[: body.__code__.co_argcount]
    defaults = body.__defaults__ or ()
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return [_parameter(name, annotations[name], given) for name in names[1:]]


def _parameter(name: str, annotation: Any, defaults: Mapping[str, Any]) -> Parameter:
    kind, declaration = get_args(annotation)
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    multiple = get_origin(kind) is list
    if multiple:
        (kind,) = get_args(kind)
    return Parameter(name, declaration, kind, multiple, name not in defaults, defaults.get(name))


def parse_words(parameters: Iterable[Parameter], words: list[str]) -> dict[str, Any]:
    """The value of each parameter; `NotUnderstoodError` for anything but a correct line."""
    parameters = list(parameters)
    options = {
        name: parameter
        for parameter in parameters
        if isinstance(parameter.declaration, Option)
        for name in parameter.declaration.names
    }
    given: dict[str, list[str]] = {}
    positional: list[str] = []
    queue = list(reversed(words))
    while queue:
        word = queue.pop()
        if word == "--":
            positional += reversed(queue)
            break
        if not word.startswith("-") or word == "-":
            positional.append(word)
            continue
        name, value, rest = _split_option(word)
        option = options.get(name)
        if option is None:
            raise NotUnderstoodError
        if option.is_switch:
            if value is not None:
                raise NotUnderstoodError
            value = ""
            if rest:
                queue.append(f"-{rest}")
        elif value is None:
            if not rest and not queue:
                raise NotUnderstoodError
            value = rest or queue.pop()
        given.setdefault(option.name, []).append(value)
    _place(parameters, positional, given)
    return {
        parameter.name: _value(parameter, given.get(parameter.name)) for parameter in parameters
    }


def _split_option(word: str) -> tuple[str, str | None, str]:
    """`--name=value` and `-nvalue` taken apart: the name, the value, what a short name drags."""
    if word.startswith("--"):
        name, separator, value = word.partition("=")
        return name, value if separator else None, ""
    return word[:2], None, word[2:]


def _place(parameters: list[Parameter], positional: list[str], given: dict[str, list[str]]) -> None:
    remaining = list(positional)
    for parameter in parameters:
        if isinstance(parameter.declaration, Argument) and remaining:
            taken = len(remaining) if parameter.multiple else 1
            given[parameter.name], remaining = remaining[:taken], remaining[taken:]
    if remaining:
        raise NotUnderstoodError


def _value(parameter: Parameter, texts: list[str] | None) -> Any:
    if texts is None:
        if parameter.required:
            raise NotUnderstoodError
        return parameter.default
    if parameter.type is bool:
        return True
    if isinstance(parameter.declaration, Option) and parameter.declaration.count:
        return len(texts)
    if parameter.multiple:
        return [_convert(parameter, text) for text in texts]
    return _convert(parameter, texts[-1])


def _convert(parameter: Parameter, text: str) -> Any:
    declaration = parameter.declaration
    if declaration.choices and text not in declaration.choices:
        raise NotUnderstoodError
    try:
        value = parameter.type(text)
    except ValueError:
        raise NotUnderstoodError from None
    minimum = declaration.minimum if isinstance(declaration, Option) else None
    if minimum is not None and value < minimum:
        raise NotUnderstoodError
    return value


def typer_annotation(parameter: Parameter) -> Any:
    """The same declaration in typer's words, for help and diagnosis."""
    import typer

    declaration = parameter.declaration
    element: Any = parameter.type
    if declaration.choices:
        # Of lists, typer knows those of an Enum only.
        names = {choice: choice for choice in declaration.choices}
        element = StrEnum("Choice", names) if parameter.multiple else Literal[declaration.choices]
    kind = list[element] if parameter.multiple else element
    shown = parameter.default not in (None, False, 0, ())
    if isinstance(declaration, Argument):
        metavar = declaration.metavar
        return Annotated[
            kind, typer.Argument(metavar=metavar, help=declaration.help, show_default=shown)
        ]
    return Annotated[
        kind,
        typer.Option(
            *declaration.names,
            metavar=declaration.metavar or None,
            help=declaration.help,
            show_default=shown,
            min=declaration.minimum,
            count=declaration.count,
        ),
    ]
