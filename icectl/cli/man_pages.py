"""Man pages from the command tree: `icectl.1`, and one page for each command or group."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from icectl import __version__
from icectl.cli.catalogue import CatalogueEntry
from icectl.cli.exit_codes import EXIT_CODES
from icectl.cli.parameters import Argument, Option, Parameter
from icectl.cli.tree import GROUPS

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


def render_man_pages(entries: list[CatalogueEntry]) -> dict[str, str]:
    """File name -> text, for every page."""
    pages: dict[str, list[CatalogueEntry]] = {}
    for entry in entries:
        pages.setdefault(entry.name.split(" ")[0], []).append(entry)
    texts = {f"icectl-{word}.1": _command_page(word, group) for word, group in pages.items()}
    summaries = {word: GROUPS.get(word) or group[0].summary for word, group in pages.items()}
    return {"icectl.1": _main_page(summaries), **texts}


def _main_page(summaries: dict[str, str]) -> str:
    lines = [
        *_head("icectl", "the administration tool for Icechunk repositories"),
        ".SH SYNOPSIS",
        ".B icectl",
        r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]",
        ".br",
        ".B icectl",
        r"\-\-help | \-\-version",
        ".SH DESCRIPTION",
        *_paragraphs(OVERVIEW),
        ".SH COMMANDS",
    ]
    for word, summary in summaries.items():
        lines += [".TP", rf"\fBicectl\-{_escape(word)}\fR(1)", _escape(f"{summary}.")]
    lines += _tail([f"icectl-{word}" for word in summaries])
    return "\n".join(lines) + "\n"


def _command_page(word: str, entries: list[CatalogueEntry]) -> str:
    lines = [
        *_head(f"icectl-{word}", GROUPS.get(word) or entries[0].summary),
        ".SH SYNOPSIS",
        *_synopses(entries),
    ]
    lines += [".SH DESCRIPTION"]
    for entry in entries:
        if len(entries) > 1:
            lines += [f".SS icectl {_escape(entry.name)}"]
        lines += _paragraphs(entry.paragraphs)
        for parameter, argument in entry.arguments:
            lines += [".TP", rf"\fI{_escape(argument.metavar)}\fR", _fold(_described(parameter))]
    lines += [".SH OPTIONS"]
    shown: dict[Parameter, list[str]] = {}
    for entry in entries:
        for parameter, _option in entry.options:
            shown.setdefault(parameter, []).append(entry.name)
    # What only some of the subcommands take comes first; what all take, last.
    for parameter, names in sorted(shown.items(), key=lambda item: len(item[1]) == len(entries)):
        only = "" if len(names) == len(entries) else f" (icectl {', icectl '.join(names)})"
        assert isinstance(parameter.declaration, Option)
        lines += [".TP", _option_head(parameter, parameter.declaration)]
        lines += [_fold(_described(parameter) + only)]
    if word == "validate":
        lines += _rules()
    examples = [pair for entry in entries for pair in entry.examples]
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


def _synopses(entries: list[CatalogueEntry]) -> Iterator[str]:
    for index, entry in enumerate(entries):
        if index:
            yield ".br"
        yield f".B icectl {_escape(entry.name)}"
        parts = [r"[\fIOPTIONS\fR]"]
        for parameter, argument in entry.arguments:
            text = rf"\fI{_escape(argument.metavar)}\fR" + (" ..." if parameter.multiple else "")
            parts.append(text if parameter.required else f"[{text}]")
        yield " ".join(parts)


def _option_head(parameter: Parameter, option: Option) -> str:
    names = ", ".join(rf"\fB{_escape(name)}\fR" for name in option.names)
    if parameter.is_switch:
        return names
    return rf"{names} \fI{_escape(option.metavar or '|'.join(option.choices))}\fR"


def _described(parameter: Parameter) -> str:
    declaration: Option | Argument = parameter.declaration
    text = declaration.help
    if declaration.choices:
        text += f" One of: {', '.join(declaration.choices)}."
    if parameter.default and not parameter.is_switch:
        text += f" Default: {parameter.default}."
    return text


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
