"""The command tree: every command's name, its one-line summary and where its code is.

Only the module of the called command is imported, so this module must stay free of imports.

How to add a command
--------------------
1. Add one line to `COMMANDS`: `Command("branch create", "Create a branch", "branch:create")`.
   The target is `module:name` below `icectl.cli.commands`. The first word of a two-word
   name is a group; give a new group its line in `GROUPS`. Order here is order in `--help`.
2. Write `icectl/cli/commands/MODULE.py`:

       EXAMPLES = {"branch create": (("icectl branch create dev", "a branch at the tip of main"),)}

       @command()                      # repository=False: no -r; jsonl=True: offers --jsonl
       def create(
           context: CommandContext, name: NewNameArgument, ref: RefArgument = "main"
       ) -> None:
           '''Create a branch.

           More paragraphs: they are the DESCRIPTION of the man page and of `--help`.
           '''
           result = create_branch(context.open_repository(), name, ref)
           context.emit(result, render_branch_created)

   Parameters are declared as `icectl.cli.parameters` says; use the aliases of
   `icectl.cli.options` where one fits, since completions follow the metavar (REF, BRANCH,
   TAG, LOCATION, FILE, DIRECTORY, REMOTE). The annotations are evaluated, so what they name
   is imported at run time. Whatever is heavy is imported inside the function.
   The function returns an exit code, or None for 0. Failures are raised as `IcectlError`;
   nothing is printed but through the context.
3. Run `make generate` (man pages and completions) and commit what it wrote.
"""

from __future__ import annotations

from icectl.records import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str
    target: str
    """`module:attribute` below `icectl.cli.commands`."""


GROUPS: dict[str, str] = {
    "branch": "List, create, move and delete branches",
    "tag": "List, create and delete tags",
    "status": "Whether the repository takes changes",
    "config": "The configuration stored in the repository",
    "metadata": "What its owners wrote about the repository",
    "flags": "What clients may do in the repository",
    "remote": "Names for repositories, kept in the config file",
}

COMMANDS: tuple[Command, ...] = (
    Command("init", "Make a new repository", "init:init"),
    Command("log", "Show the history", "log:log"),
    Command("show", "Show one commit whole", "show:show"),
    Command("ls", "List the groups and arrays of a snapshot", "show:ls"),
    Command("diff", "Show what changed between two versions", "diff:diff"),
    Command("branch list", "List the branches", "branch:list_branches"),
    Command("branch create", "Create a branch", "branch:create"),
    Command("branch delete", "Delete a branch", "branch:delete"),
    Command("branch reset", "Make a branch point at another commit", "branch:reset"),
    Command("tag list", "List the tags", "tag:list_tags"),
    Command("tag create", "Create a tag", "tag:create"),
    Command("tag delete", "Delete a tag for good", "tag:delete"),
    Command("ops-log", "Show the operations on the repository", "ops_log:ops_log"),
    Command("status", "Show whether the repository takes changes", "status:status"),
    Command("status set", "Set it online, read-only or offline", "status:set_status"),
    Command("config get", "Show the stored configuration", "config:get"),
    Command("config set", "Set a value of the stored configuration", "config:set_value"),
    Command("metadata get", "Show the metadata of the repository", "metadata:get"),
    Command("metadata set", "Add or replace a value of the metadata", "metadata:set_value"),
    Command("metadata unset", "Remove values from the metadata", "metadata:unset"),
    Command("flags list", "List the feature flags", "flags:list_flags"),
    Command("flags set", "Turn a feature flag on or off", "flags:set_flag"),
    Command("expire", "Release old snapshots from the history", "expire:expire"),
    Command("gc", "Delete what no version needs", "gc:collect"),
    Command("validate", "Check whether the repository is sound", "validate:validate"),
    Command("repair", "Mend what keeps clients from writing safely", "repair:repair"),
    Command("stats", "Show where the bytes go", "stats:stats"),
    Command("export", "Write the repository as tables to files", "export:export"),
    Command("sql", "Ask the repository in SQL, on Spark", "sql:sql"),
    Command("inspect-file", "Show what one file of the format says", "inspect_file:inspect_file"),
    Command("remote list", "List the named repositories", "remote:list_remotes"),
    Command("remote show", "Show one named repository", "remote:show"),
    Command("remote add", "Give a repository a name", "remote:add"),
    Command("remote remove", "Forget a named repository", "remote:remove"),
    Command("doctor", "Check the installation and the storage", "doctor:doctor"),
    Command("demo", "Make a repository and show the commands on it", "demo:demo"),
)


def find_command(words: list[str]) -> tuple[Command | None, list[str]]:
    """The command that `words` begin with, longest name first, and the words behind it."""
    by_name = {command.name: command for command in COMMANDS}
    for length in (2, 1):
        command = by_name.get(" ".join(words[:length]))
        if command is not None and len(words) >= length:
            return command, words[length:]
    return None, words


def subcommands(group: str) -> tuple[Command, ...]:
    return tuple(command for command in COMMANDS if command.name.startswith(f"{group} "))
