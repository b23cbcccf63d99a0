"""Man pages and completions: current, well formed, and working in the real shells."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from icectl.cli.app import COMMANDS, subcommands
from tests.cli.terminals import Terminal
from tests.docs.generate import generate, write
from tests.docs.roff import markdown_to_roff

pytest.importorskip("pyarrow", reason="icectl-tables(7) lists the columns that it knows")

ROOT = Path(__file__).parents[2]
CURRENT = generate()
PAGES = sorted(name for name in CURRENT if name.startswith("man/"))


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


@pytest.mark.parametrize("name", CURRENT)
def test_is_current(name: str) -> None:
    found = (ROOT / name).read_text(encoding="utf-8") if (ROOT / name).exists() else None
    assert found == CURRENT[name], "run `make generate` and commit what it wrote"


def test_no_page_is_left_over() -> None:
    found = {str(path.relative_to(ROOT)) for path in (ROOT / "man").glob("man*/*")}
    assert found == set(PAGES)


def test_writing_removes_pages_of_lost_commands(tmp_path: Path) -> None:
    lost = tmp_path / "man" / "man1" / "icectl-lost.1"
    lost.parent.mkdir(parents=True)
    lost.write_text("x")
    write(tmp_path)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == set(CURRENT)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_every_section(name: str) -> None:
    sections = ["NAME", "DESCRIPTION", "SEE ALSO"]
    if Path(name).stem.removeprefix("icectl-") in subcommands() and name.endswith(".1"):
        sections += ["SYNOPSIS", "COMMON OPTIONS", "EXAMPLES"]
    for section in sections:
        assert f"\n.SH {section}\n" in CURRENT[name]


def test_every_command_has_a_page() -> None:
    assert {f"man/man1/icectl-{word}.1" for word in subcommands()} < set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_references_lead_to_pages(name: str) -> None:
    found = re.findall(r"\\fB(icectl[a-z\\-]*)\\fR\((\d)\)", CURRENT[name])
    assert found
    for page, section in found:
        page = page.replace("\\", "")
        assert f"man/man{section}/{page}.{section}" in PAGES


def test_markdown_becomes_roff() -> None:
    text = (
        "## ONE\n\nA `b-c`\nand *d*.\n\nMore.\n\n- x\n- **y**\n\n`t`\n: What\nit is.\n\n"
        "```sh\n.ls ~\n\necho\n```\n"
    )
    assert list(markdown_to_roff(text)) == [
        ".SH ONE",
        r"A \fBb\-c\fR and \fId\fR.",
        ".PP",
        "More.",
        r".IP \(bu 2",
        "x",
        r".IP \(bu 2",
        r"\fBy\fR",
        ".TP",
        r"\fBt\fR",
        "What it is.",
        *(".PP", ".RS 4", ".nf", r"\&.ls \(ti", "", "echo", ".fi", ".RE"),
    ]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_clean(name: str, tmp_path: Path) -> None:
    page = tmp_path / Path(name).name
    page.write_text(CURRENT[name])
    lint = subprocess.run(
        [need("mandoc"), "-T", "lint", page], capture_output=True, text=True, check=False
    )
    assert lint.stdout == ""


@pytest.mark.parametrize("name", PAGES)
def test_groff_does_not_complain(name: str) -> None:
    done = subprocess.run(
        [need("groff"), "-man", "-Tutf8", "-ww"],
        input=CURRENT[name],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def test_every_variable_that_is_read_is_documented() -> None:
    read = set()
    for path in (ROOT / "icectl" / "cli").rglob("*.py"):
        read |= set(re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', path.read_text()))
    assert read
    for name in read:
        assert name in CURRENT["man/man5/icectl-config.5"]


# ── completions ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def with_remotes(environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Names to complete; no shell may execute the malicious one."""
    config = Path(environ["ICECTL_CONFIG"])
    config.parent.mkdir()
    names = ("production", "laboratory", "$(touch wicked)", "a;b", "x y", "-r")
    config.write_text("".join(f"[repositories.'{name}']\nlocation = '/x'\n" for name in names))
    (tmp_path / "some_directory").mkdir()
    (tmp_path / "some_file").write_text("")
    return environ


def bash(line: str, environ: dict[str, str], directory: Path) -> set[str]:
    script = (
        f"source '{ROOT}/completions/icectl.bash'\n"
        'COMP_WORDS=($1); [[ $1 == *" " ]] && COMP_WORDS+=("")\n'
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        '_icectl_completion icectl\nprintf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [need("bash"), "--norc", "-c", script, "bash", line],
        env=environ, cwd=directory, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return {word.rstrip("/") for word in done.stdout.splitlines() if word}


def fish(line: str, environ: dict[str, str], directory: Path) -> set[str]:
    script = f"source '{ROOT}/completions/icectl.fish'; complete -C \"$argv[1]\""
    done = subprocess.run(
        [need("fish"), "--no-config", "-c", script, line],
        env=environ, cwd=directory, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return {candidate.partition("\t")[0].rstrip("/") for candidate in done.stdout.splitlines()}


def zsh(line: str, environ: dict[str, str], directory: Path) -> set[str]:
    """The word that Tab makes of the last one, typed into an interactive zsh."""
    environ = {**environ, "TERM": "dumb", "ZDOTDIR": str(directory)}
    with Terminal([need("zsh"), "-f", "-i"], environ, columns=300) as terminal:
        terminal.send(
            f"cd '{directory}'; fpath=('{ROOT}/completions' $fpath); autoload -Uz compinit; "
            "compinit -u -D; PS1='PROMPT'; echo RE''ADY\n"
        )
        terminal.read_until("READY")
        terminal.read_until("PROMPT")
        # The quotes keep the markers out of the echo of what is typed.
        terminal.send(f"{line}\t")
        terminal.send(" DO''NE\x01print -r -- LI''NE:\r")
        text = terminal.read_until("DONE")
    (completed,) = re.findall(r"LINE:(.*) DONE", text)
    return {completed.split()[-1].rstrip("/")}


SHELLS = pytest.mark.parametrize("shell", [bash, fish, zsh], ids=lambda shell: shell.__name__)


@SHELLS
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("icectl remo", {"remote"}),
        ("icectl hel", {"help"}),
        ("icectl help remo", {"remote"}),
        ("icectl help remote sh", {"show"}),
        ("icectl remote sh", {"show"}),
        ("icectl remote show --js", {"--json"}),
        ("icectl remote show prod", {"production"}),
        ("icectl remote show --json lab", {"laboratory"}),
        ("icectl remote add x some_d", {"some_directory"}),
        ("icectl inspect-file -r prod", {"production"}),
        ("icectl inspect-file -r x --json some_f", {"some_file"}),
    ],
)
def test_completes(
    shell, line: str, expected: set[str], with_remotes: dict[str, str], tmp_path: Path
) -> None:
    assert shell(line, with_remotes, tmp_path) == expected
    assert not (tmp_path / "wicked").exists()


@pytest.mark.parametrize("shell", [bash, fish], ids=lambda shell: shell.__name__)
def test_lists(shell, with_remotes: dict[str, str], tmp_path: Path) -> None:
    words = {command.name.split(" ")[0] for command in COMMANDS}
    assert words <= shell("icectl ", with_remotes, tmp_path)
    assert shell("icectl remote ", with_remotes, tmp_path) == set(subcommands("remote"))
    assert shell("icectl remote remove ", with_remotes, tmp_path) == {"production", "laboratory"}
    assert not (tmp_path / "wicked").exists()


def test_a_long_description_is_one_line(environ: dict[str, str]) -> None:
    environ = {**environ, "_ICECTL_COMPLETE": "complete_fish"}
    environ |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_ARGS": "icectl gc --"}
    done = subprocess.run(
        [sys.executable, "-m", "icectl.cli.main"],
        env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) > 100
    assert [line for line in lines if not line.startswith("--")] == []


@pytest.mark.parametrize("line", ["icectl help x ", "icectl lgo ", "icectl branch creat "])
def test_a_mistyped_command_completes_quietly(
    line: str, environ: dict[str, str], tmp_path: Path
) -> None:
    bash(line, environ, tmp_path)  # fails on anything that is printed to stderr


def test_bash_completes_behind_an_equals_sign(with_remotes: dict[str, str], tmp_path: Path) -> None:
    assert bash("icectl inspect-file --repo=prod", with_remotes, tmp_path) == {"production"}


@SHELLS
def test_refs_complete_from_the_repository(shell, environ: dict[str, str], tmp_path: Path) -> None:
    for words in (
        ["init", "data"],
        ["branch", "create", "feature-x", "-r", "data"],
        ["tag", "create", "v1.0", "-r", "data"],
    ):
        subprocess.run(
            ["icectl", *words], env=environ, cwd=tmp_path, check=True, capture_output=True
        )
    for line, expected in (
        ("icectl log -r data feat", "feature-x"),
        ("icectl show -r ./data v1", "v1.0"),
        ("icectl tag delete --repo data v", "v1.0"),
        ("icectl branch reset -r data feature-x ma", "main"),
    ):
        assert shell(line, environ, tmp_path) == {expected}
