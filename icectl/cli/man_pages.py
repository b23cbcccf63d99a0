"""Man pages from the typer application: `icectl.1`, and one page for each command or group."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from icectl import __version__
from icectl.cli.app import GROUPS, examples_of, load, own_parameters, root, subcommands
from icectl.cli.exit_codes import EXIT_CODES

ENVIRONMENT = (
    ("ICECTL_REPO", "The repository, where --repo is not given."),
    ("ICECTL_CONFIG", "The config file, in place of the one below XDG_CONFIG_HOME."),
    ("ICECTL_PAGER, PAGER", "The pager for long output on a terminal; cat or nothing for none."),
    ("ICECTL_DEBUG", "When set, a bug in icectl prints its traceback."),
    ("ICECTL_NOW", "A time that icectl takes for the present, for reproducible output."),
    ("NO_COLOR, TERM", "No colour when NO_COLOR is set or TERM is dumb."),
    ("XDG_CONFIG_HOME, HOME", "Where the config file is looked for."),
    (
        "AWS_PROFILE, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, "
        "AWS_ENDPOINT_URL",
        "Credentials and endpoint for s3://, as every AWS tool reads them.",
    ),
    (
        "GOOGLE_APPLICATION_CREDENTIALS, STORAGE_EMULATOR_HOST",
        "Credentials and endpoint for gs://, as every Google tool reads them.",
    ),
    ("JAVA_HOME, PYSPARK_PYTHON", "The Java and the executors' interpreter for --engine spark."),
)
COMMON_OPTIONS = (
    "icectl(1) describes the options that every command takes: --repo, --storage-option, "
    "--json, --jsonl, --no-color, --quiet, --verbose."
)
FILES = (
    (
        "$XDG_CONFIG_HOME/icectl/config.toml",
        "Named repositories; ~/.config where XDG_CONFIG_HOME is not set. See icectl-remote(1).",
    ),
)
OVERVIEW = (
    "icectl looks at, changes, checks and cleans Icechunk repositories on local disk, S3 and "
    "Google Cloud Storage.",
    "A LOCATION is a path, a URL (s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, file:///PATH, "
    "memory://NAME) or a name from the config file. Without --repo it is $ICECTL_REPO, else the "
    "repository that the current directory is in. Options may stand anywhere after the command.",
    "A REF is a branch, a tag, a snapshot id or at least 4 characters of one, each with ~N for "
    "the Nth ancestor. branch:NAME and tag:NAME tell apart a name that is both.",
    "Data goes to standard output, everything else to standard error. With --json a command "
    "prints one document, with --jsonl one object per line; an error is then one object on "
    "standard error. Ids, times (RFC 3339, UTC) and integers above 2^53 are strings.",
    "What destroys takes --dry-run, asks on a terminal, and wants --yes elsewhere.",
)


def render_man_pages() -> dict[str, str]:
    """File name -> text, for every page."""
    texts = {f"icectl-{word}.1": _command_page(word) for word in subcommands()}
    return {"icectl.1": _main_page(), **texts}


def _main_page() -> str:
    summaries = subcommands()
    lines = [
        *_head("icectl", "the administration tool for Icechunk repositories"),
        ".SH SYNOPSIS",
        ".B icectl",
        r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".br",
        ".B icectl",
        r"\-\-help | \-\-version",
        ".SH DESCRIPTION",
        *_paragraphs(OVERVIEW),
        ".SH COMMANDS",
    ]
    for word, summary in summaries.items():
        lines += [".TP", rf"\fBicectl\-{_escape(word)}\fR(1)", _escape(f"{summary}.")]
    lines += [".SH OPTIONS", *_option_list(root().params)]
    lines += _tail([f"icectl-{word}" for word in summaries])
    return "\n".join(lines) + "\n"


def _command_page(word: str) -> str:
    names = [word] if word not in GROUPS else [f"{word} {below}" for below in subcommands(word)]
    commands = {name: load(name) for name in names}
    lines = [*_head(f"icectl-{word}", subcommands()[word]), ".SH SYNOPSIS", *_synopses(commands)]
    lines += [".SH DESCRIPTION"]
    for name, command in commands.items():
        if len(commands) > 1:
            lines += [f".SS icectl {_escape(name)}"]
        lines += _paragraphs(" ".join(text.split()) for text in command.help.split("\n\n"))
        for argument in _arguments(command):
            lines += [".TP", rf"\fI{_escape(_metavar(argument))}\fR", _fold(argument.help or "")]
        if len(commands) > 1:
            lines += _option_list(own_parameters(command))
    if len(commands) == 1 and (options := _option_list(own_parameters(commands[word]))):
        lines += [".SH OPTIONS", *options]
    lines += [".SH COMMON OPTIONS", _fold(COMMON_OPTIONS)]
    if word == "validate":
        lines += _rules()
    examples = [pair for name in names for pair in examples_of(name)]
    if examples:
        lines += [".SH EXAMPLES"]
        for line, meaning in examples:
            lines += [".TP", rf"\fB{_escape(line)}\fR", _fold(meaning)]
    return "\n".join([*lines, *_tail(["icectl"])]) + "\n"


def _rules() -> Iterator[str]:
    """The catalogue that `validate --explain` shows."""
    from icectl.ops.validate.rules import RULES

    yield ".SH RULES"
    for rule in RULES.values():
        yield ".TP"
        yield rf"\fB{rule.code}\fR {_escape(rule.title)} ({rule.severity}, {rule.level_name})"
        yield _fold(rule.explanation)


def _synopses(commands: Mapping[str, Any]) -> Iterator[str]:
    for index, (name, command) in enumerate(commands.items()):
        if index:
            yield ".br"
        yield f".B icectl {_escape(name)}"
        parts = [r"[\fIOPTIONS\fR]"]
        for argument in _arguments(command):
            text = rf"\fI{_escape(_metavar(argument))}\fR" + (" ..." if argument.nargs < 0 else "")
            parts.append(text if argument.required else f"[{text}]")
        yield " ".join(parts)


def _arguments(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "argument"]


def _option_list(parameters: Iterable[Any]) -> list[str]:
    lines: list[str] = []
    for option in parameters:
        if option.param_type_name != "option":
            continue
        names = ", ".join(rf"\fB{_escape(name)}\fR" for name in option.opts)
        value = "" if option.is_flag or option.count else rf" \fI{_escape(_metavar(option))}\fR"
        text = option.help or ""
        if option.default and not option.is_flag and not option.count:
            text += f" Default: {option.default}."
        lines += [".TP", names + value, _fold(text)]
    return lines


def _metavar(parameter: Any) -> str:
    choices = getattr(parameter.type, "choices", None)
    return str(parameter.metavar or ("|".join(choices) if choices else parameter.type.name.upper()))


def _head(name: str, summary: str) -> list[str]:
    lowered = summary[:1].lower() + summary[1:]
    return [
        '.\\" Generated by "make generate"; edit the command modules instead.',
        f'.TH {_escape(name.upper())} 1 "" "icectl {__version__}" "icectl manual"',
        ".nh",
        ".ad l",
        ".SH NAME",
        rf"{_escape(name)} \- {_escape(lowered)}",
    ]


def _tail(see_also: list[str]) -> list[str]:
    lines = [".SH EXIT STATUS"]
    lines += _definitions((str(code), meaning) for code, meaning in EXIT_CODES)
    lines += [".SH FILES", *_definitions(FILES), ".SH ENVIRONMENT", *_definitions(ENVIRONMENT)]
    references = ", ".join(rf"\fB{_escape(name)}\fR(1)" for name in see_also)
    return [*lines, ".SH SEE ALSO", references]


def _definitions(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in pairs:
        yield from (".TP", rf"\fB{_escape(term)}\fR", _fold(meaning))


def _paragraphs(texts: Iterable[str]) -> Iterator[str]:
    """Paragraphs behind a heading, which brings the first one itself."""
    for index, text in enumerate(texts):
        if index:
            yield ".PP"
        yield _fold(text)


def _fold(text: str) -> str:
    lines = textwrap.wrap(text, 70, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(_escape, lines))


def _escape(text: str) -> str:
    """Text that roff prints as it is; a control character cannot stand first in a line."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("~", r"\(ti")
    escaped = escaped.replace("^", r"\(ha").replace("'", r"\(aq").replace("`", r"\(ga")
    escaped = "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in escaped)
    return rf"\&{escaped}" if escaped.startswith(".") else escaped
