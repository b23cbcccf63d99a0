"""The script for zsh."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.cli.catalogue import CatalogueEntry, completion_kind, groups, pairs, singles, top_level
from icectl.cli.completions.template import fill, first_sentence, indented, quote
from icectl.cli.parameters import Argument, Option, Parameter

TEMPLATE = r"""#compdef icectl
@NOTICE@
_icectl_names() {
    local -a names
    names=(${(f)"$(icectl __complete $1 ${typed[2,-1]} 2>/dev/null)"})
    compadd -a names
}
_icectl_refs() { _icectl_names refs }
_icectl_branches() { _icectl_names branches }
_icectl_tags() { _icectl_names tags }
_icectl_remotes() { _icectl_names remotes }
_icectl_locations() { _icectl_names remotes; _files -/ }

_icectl() {
    local command="" curcontext="$curcontext"
    local -a names typed
    typed=("${words[@]}")  # _arguments has a variable `line` of its own
    case "${words[2]} ${words[3]}" in
@PAIRS@
    esac
    if [[ -z $command ]]; then
        case "${words[2]}" in
@SINGLES@
        esac
    fi
    if [[ -z $command ]] || (( CURRENT == 2 )); then
        if (( CURRENT == 2 )); then
            names=(
@TOP@
            )
            _describe command names
        elif (( CURRENT == 3 )); then
            case "${words[2]}" in
@GROUPS@
            esac
        fi
        return
    fi
    if (( CURRENT == 3 )); then
        case "${words[2]}" in
@SUBCOMMANDS@
        esac
    fi
    case "$command" in
@COMMANDS@
    esac
}
_icectl "$@"
"""


def render_zsh(entries: list[CatalogueEntry]) -> str:
    summaries = {entry.name: entry.summary for entry in entries}

    def described(group: str, words: list[str]) -> str:
        items = " ".join(_item(word, summaries[f"{group} {word}"]) for word in words)
        return f"{group}) names=({items}); _describe command names ;;"

    below = groups(entries)
    alone = singles(entries)
    waiting = [described(*item) for item in below.items() if item[0] not in alone]
    optional = [described(*item) for item in below.items() if item[0] in alone]
    return fill(
        TEMPLATE,
        PAIRS=indented(8, (f'"{name}") command="{name}" ;;' for name in pairs(entries))),
        SINGLES=indented(12, (f"{name}) command={name} ;;" for name in alone)),
        TOP=indented(16, (_item(*item) for item in top_level(entries).items())),
        GROUPS=indented(16, waiting),
        SUBCOMMANDS=indented(12, optional),
        COMMANDS=indented(8, (line for entry in entries for line in _command(entry))),
    )


def _command(entry: CatalogueEntry) -> Iterator[str]:
    words = len(entry.name.split(" "))
    yield f'"{entry.name}")'
    yield f"    shift {words} words; (( CURRENT -= {words} ))"
    yield "    _arguments -s -S \\"
    specs = [spec for item in entry.options for spec in _option(*item)]
    for index, (parameter, argument) in enumerate(entry.arguments, 1):
        place = "*" if parameter.multiple else str(index)
        specs.append(quote(f"{place}:{argument.metavar}:{_action(argument)}"))
    yield from (f"        {spec} \\" for spec in specs[:-1])
    yield f"        {specs[-1]}"
    yield "    ;;"


def _option(parameter: Parameter, option: Option) -> Iterator[str]:
    text = first_sentence(option.help).replace("[", "(").replace("]", ")").replace(":", "\\:")
    repeat = "*" if parameter.multiple or option.count else ""
    for name in option.names:
        if parameter.is_switch:
            yield quote(f"{repeat}{name}[{text}]")
        else:
            sign = "=" if name.startswith("--") else "+"
            value = option.metavar or option.name.lstrip("-")
            action = _action(option)
            yield quote(f"{repeat}{name}{sign}[{text}]:{value}:{action}")


def _action(declaration: Option | Argument) -> str:
    kind = completion_kind(declaration)
    if kind.startswith("words:"):
        return f"({kind.removeprefix('words:')})"
    plain = {"files": "_files", "directories": "_files -/", "": " "}
    return plain.get(kind, f"_icectl_{kind}")


def _item(word: str, summary: str) -> str:
    return quote(f"{word}:{summary}")
