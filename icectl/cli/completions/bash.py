"""The script for bash."""

from __future__ import annotations

from collections.abc import Iterator

from icectl.cli.catalogue import CatalogueEntry, completion_kind, groups, pairs, singles, top_level
from icectl.cli.completions.template import fill, indented

TEMPLATE = r"""@NOTICE@
_icectl_candidates() {
    # Candidates of the kind $1 that begin with $cur, into COMPREPLY. Names from a repository
    # never go through `compgen -W`, which would expand them like a command line.
    local name
    case "$1" in
        refs | branches | tags | remotes)
            while IFS= read -r name; do
                [[ $name == "$cur"* ]] && COMPREPLY+=("$name")
            done < <(icectl __complete "$1" "${words[@]}" 2>/dev/null)
            ;;
        locations)
            _icectl_candidates remotes
            _icectl_candidates directories
            ;;
        files | directories)
            compopt -o filenames 2>/dev/null
            local action=-f
            [[ $1 == directories ]] && action=-d
            while IFS= read -r name; do
                COMPREPLY+=("$name")
            done < <(compgen "$action" -- "$cur")
            ;;
        words:*)
            for name in ${1#words:}; do
                [[ $name == "$cur"* ]] && COMPREPLY+=("$name")
            done
            ;;
    esac
}

_icectl() {
    # COMP_WORDS is cut at : and =, which stand in locations, so the line is cut here.
    local cur words=() line="${COMP_LINE:0:COMP_POINT}"
    read -ra words <<<"$line"
    if [[ $line == *[[:space:]] ]]; then cur=""; else
        cur="${words[-1]}"
        unset 'words[-1]'
    fi
    words=("${words[@]:1}")
    COMPREPLY=()

    local command="" used=0
    case "${words[0]-} ${words[1]-}" in
@PAIRS@
    esac
    if [[ -z $command ]]; then
        case "${words[0]-}" in
@SINGLES@
        esac
    fi
    if [[ -z $command ]]; then
        case "${#words[@]} ${words[0]-}" in
            "0 ") _icectl_candidates "words:@TOP@" ;;
@GROUPS@
        esac
        return
    fi

    local options="" kinds=() subcommands=""
    declare -A values=()
    case "$command" in
@COMMANDS@
    esac

    local position=0 index word previous=""
    for ((index = used; index < ${#words[@]}; index++)); do
        word="${words[index]}"
        if [[ -n $previous ]]; then
            previous=""
        elif [[ -n ${values[$word]+set} ]]; then
            previous="$word"
        elif [[ $word != -* ]]; then
            position=$((position + 1))
        fi
    done
    if [[ -n $previous ]]; then
        _icectl_candidates "${values[$previous]}"
    elif [[ $cur == --*=* && -n ${values[${cur%%=*}]+set} ]]; then
        local option="${cur%%=*}"
        cur="${cur#*=}"
        _icectl_candidates "${values[$option]}"
    elif [[ $cur == -* ]]; then
        _icectl_candidates "words:$options"
    else
        [[ $position == 0 && -n $subcommands ]] && _icectl_candidates "words:$subcommands"
        if ((${#kinds[@]})); then
            ((position < ${#kinds[@]})) && _icectl_candidates "${kinds[position]}"
        fi
    fi
    # Readline replaces only what stands behind the last : or = of the word.
    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then
        local cut="${cur%"${cur##*:}"}"
        COMPREPLY=("${COMPREPLY[@]#"$cut"}")
    fi
}
complete -F _icectl icectl
"""


def render_bash(entries: list[CatalogueEntry]) -> str:
    return fill(
        TEMPLATE,
        PAIRS=indented(8, (f'"{name}") command="{name}" used=2 ;;' for name in pairs(entries))),
        SINGLES=indented(12, (f"{name}) command={name} used=1 ;;" for name in singles(entries))),
        TOP=" ".join([*top_level(entries), "--help", "--version"]),
        GROUPS=indented(
            12,
            (
                f'"1 {group}") _icectl_candidates "words:{" ".join(below)}" ;;'
                for group, below in groups(entries).items()
            ),
        ),
        COMMANDS=indented(8, (line for entry in entries for line in _command(entry, entries))),
    )


def _command(entry: CatalogueEntry, entries: list[CatalogueEntry]) -> Iterator[str]:
    names = [name for _, option in entry.options for name in option.names]
    kinds = " ".join(f'"{completion_kind(argument)}"' for _, argument in entry.arguments)
    values = " ".join(
        f'[{name}]="{completion_kind(option)}"'
        for parameter, option in entry.options
        if not parameter.is_switch
        for name in option.names
    )
    yield f'"{entry.name}")'
    yield f'    options="{" ".join(names)}"'
    if kinds:
        yield f"    kinds=({kinds})"
    if values:
        yield f"    values=({values})"
    if below := groups(entries).get(entry.name):
        yield f'    subcommands="{" ".join(below)}"'
    yield "    ;;"
