"""The script for fish."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.cli.catalogue import CatalogueEntry, completion_kind, groups, pairs, singles, top_level
from icectl.cli.completions.template import fill, first_sentence, quote
from icectl.cli.parameters import Argument, Option

TEMPLATE = r"""@NOTICE@
function __icectl_words
    commandline -opc | tail -n +2
end

function __icectl_command --description 'the command that the line begins with'
    set -l words (__icectl_words)
    set -l pair (string join ' ' -- $words[1..2])
    if contains -- "$pair" @PAIRS@
        echo $pair
    else if contains -- "$words[1]" @SINGLES@
        echo $words[1]
    end
end

function __icectl_is --description 'the command is $argv[1]'
    set -l command (__icectl_command)
    test "$command" = "$argv[1]"
end

function __icectl_group --description 'the group $argv[1] waits for its subcommand'
    set -l words (__icectl_words)
    test (count $words) -eq 1; and test "$words[1]" = "$argv[1]"
end

function __icectl_argument --description 'position of the word being typed'
    set -l command (__icectl_command)
    test "$command" = "$argv[1]"; or return 1
    set -l words (__icectl_words)
    set -l position 1
    set -l skip 0
    for word in $words[(math (count (string split ' ' -- $command)) + 1)..]
        if test $skip -eq 1
            set skip 0
        else if contains -- $word $argv[3..]
            set skip 1
        else if not string match -q -- '-*' $word
            set position (math $position + 1)
        end
    end
    test $position -eq $argv[2]
end

function __icectl_names
    icectl __complete $argv[1] (__icectl_words) 2>/dev/null
end

complete -c icectl -f
@COMMANDS@
"""


_FISH_SOURCES = {
    "files": "-F",
    "directories": "-f -a '(__fish_complete_directories)'",
    "locations": "-f -a '(__icectl_names remotes) (__fish_complete_directories)'",
}


def render_fish(entries: list[CatalogueEntry]) -> str:
    summaries = {entry.name: entry.summary for entry in entries}
    lines = [
        f"complete -c icectl -n 'test (count (__icectl_words)) -eq 0' -a {word} -d {quote(summary)}"
        for word, summary in top_level(entries).items()
    ]
    for group, below in groups(entries).items():
        lines += [
            f"complete -c icectl -n '__icectl_group {group}' -a {word} "
            f"-d {quote(summaries[f'{group} {word}'])}"
            for word in below
        ]
    lines += [line for entry in entries for line in _command(entry)]
    return fill(
        TEMPLATE,
        PAIRS=" ".join(f"'{name}'" for name in pairs(entries)) or "''",
        SINGLES=" ".join(singles(entries)) or "''",
        COMMANDS="\n".join(lines),
    )


def _command(entry: CatalogueEntry) -> Iterator[str]:
    for parameter, option in entry.options:
        names = f"-l {option.name[2:]}" + (f" -s {option.short[1:]}" if option.short else "")
        value = "" if parameter.is_switch else f" -r {_source(option)}"
        condition = f"-n '__icectl_is \"{entry.name}\"'"
        meaning = quote(first_sentence(option.help))
        yield f"complete -c icectl {condition} {names}{value} -d {meaning}"
    valued = " ".join(
        name
        for parameter, option in entry.options
        if not parameter.is_switch
        for name in option.names
    )
    for index, (_parameter, argument) in enumerate(entry.arguments, 1):
        if source := _source(argument):
            condition = f"-n '__icectl_argument \"{entry.name}\" {index} {valued}'"
            yield f"complete -c icectl {condition} {source} -d {argument.metavar}"


def _source(declaration: Option | Argument) -> str:
    kind = completion_kind(declaration)
    if kind.startswith("words:"):
        return f"-f -a {quote(kind.removeprefix('words:'))}"
    if not kind:
        return "-f" if isinstance(declaration, Option) else ""
    return _FISH_SOURCES.get(kind, f"-f -a '(__icectl_names {kind})'")
