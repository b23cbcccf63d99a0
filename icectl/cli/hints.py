"""The text of every `Remedy`: commands and options to paste.

A fact in braces is quoted for the shell, so it can be part of a command; `!s` inserts it without
quotes, for use outside of a command.
"""

from __future__ import annotations

import re
import shlex
import string
from typing import TYPE_CHECKING, Any

from icectl.errors import Hint, Remedy

if TYPE_CHECKING:
    from icectl.cli.options import CommonOptions

HINTS = {
    # Repositories
    "create-repository": "create one with `icectl init {location}`",
    "create-below": "create one in it with `icectl init {location}`",
    "create-repository-there": "create one with icectl init",
    "add-prefix": "add a prefix: `icectl init {location}`",
    "finish-init": "check with `icectl log -r {location}` whether it is a repository now; to "
    "finish an interrupted init, add --spec-version {spec_version}",
    "restore-or-finish-init": "restore them from a copy; after an interrupted init, run "
    "`icectl init {location}`",
    "restore-backup": "there {backups!s} of `{name}`, the newest from {moment!s}; restore it and "
    "the last commit with `icectl repair`",
    "name-repository": "name the repository with -r {location}",
    "omit-repository": "omit -r for a file outside of the repository",
    "make-demo": "icectl demo demo-repo",
    "install-demo": "run pip install 'icectl[demo]', or omit --writer to let icectl write it",
    # Copies
    "copy-again": "run the same `icectl copy` again; it continues",
    "repair-target": "copy to another place, or repair it with `icectl repair -r {location}`",
    "open-target": "allow changes there with `icectl status set online -r {location}`",
    "force-copy": "copy to another place, or overwrite it with --force",
    # Refs, commits and nodes
    "list-refs": "list the names with `icectl branch list` and `icectl tag list`",
    "list-ancestors": "list them with `icectl log {ref}`",
    "list-nodes": "list the nodes with `icectl ls`",
    "list-newer-nodes": "list the nodes of the newer version with `icectl ls {snapshot}`",
    "list-first-snapshot": "list its content with `icectl ls {ref}`",
    "show-commit-times": "show their times with `icectl log {ref}`",
    "show-all-commits": "show its commits with `icectl log --all`",
    "look-at-log": "check `icectl log` for the new target before you try again",
    "create-branch": "recreate it with `icectl branch create {branch} REF`",
    "reset-branch": "move it with `icectl branch reset {branch} REF`",
    "move-branch-to-snapshot": "move it to another snapshot: `icectl branch reset {branch} REF`",
    "rewrite-ref": 'write {{"snapshot":"ID"}} into it, with the id of a file in snapshots/; '
    "show such a file with `icectl inspect-file`, and the other refs with `icectl validate`",
    "omit-merge-base": "omit --merge-base to compare their content",
    "omit-refs": "omit --refs",
    # Settings
    "set-online": "allow changes with `icectl status set online`",
    "enable-flag": "allow it with `icectl flags set {flag} on`",
    "show-config": "show the configuration with `icectl config get`",
    "configure-new-repository": "create a new repository with `icectl init --config-file`, or use "
    "`Repository.save_config` of the official package",
    # upgrade
    "upgrade": "upgrade it with `icectl upgrade`",
    "copy-instead": "copy it with `icectl copy {source} {target}`",
    "upgrade-to-target": "create a new repository from it with `icectl upgrade --to TARGET`",
    "keep-late-commit": "give it a branch with `icectl branch create NAME {snapshot} --adopt`, "
    "delete {object}, and run `icectl upgrade` again",
    # The ops log and its backups
    "list-operations": "list the operations with `icectl ops-log`",
    "name-operation": "write @N as `icectl ops-log` numbers them, a time, or the name of a backup",
    "look-at-ops-log": "check with `icectl ops-log` whether the change was made",
    "repair-ops-log": "run `icectl repair`, which adds an ops log entry with the current time",
    "set-clock": "set the clock of this machine, then check it with `icectl doctor`",
    "check-ops-log-or-known-missing": "an older repo file may have been restored; if "
    "`icectl ops-log` shows all expected operations, name the backup with --known-missing",
    "return-or-accept-older-repo": "find out who restored it; to return to the newer history, run "
    "`icectl repair`; to continue with the older one, run "
    "`icectl status set online --accept-older-repo`",
    "return-or-abandon-history": "an older repo file was restored, or the repository was created "
    "again; to keep both histories, run `icectl repair`, which gives the lost one branches; to "
    "abandon it, run `icectl gc --older-than 7d --abandon-history {backup}`",
    "find-lost-line": "find the newest backup of a lost line with `icectl validate`",
    "compare-repo-file": "the repo file may be damaged; compare it with `icectl ops-log` and its "
    "backups; if a backup is wrong, name it with --known-missing",
    "confirm-last-change": "check with `icectl log {ref}` where it points; if that is right, "
    "confirm it with any other change, such as a tag",
    "restore-or-excuse-backup": "restore it; or, if you know why it is missing, name it with "
    "--known-missing",
    "excuse-unreadable-backup": "it may be the only file that lists some commits; if you know why "
    "it is unreadable, name it with --known-missing",
    "undelete-tag": "add --undelete-tag; clients that know that it was deleted may refuse it",
    "undo-later-first": "undo the later operations first, the newest of them first, as "
    "`icectl ops-log` lists them; or return to the state before it, without the later operations, "
    "with `icectl restore --to {before}`; or change a part with --only",
    "restore-more": "add --only history, or omit --only to restore the whole state",
    "restore-collected": "the garbage collection {by!s} deleted it; restore the objects from a "
    "copy of the repository, or choose a part that does not need them with --only",
    "restore-lost": "it was lost or deleted since then; restore the objects from a copy of the "
    "repository, or choose a part that does not need them with --only",
    # gc and expire
    "allow-recent": "give --older-than at least 1d, or add --allow-recent if nobody is writing",
    "allow-recent-backups": "give --overwritten-older-than at least 1d, or the same time as "
    "--older-than with --allow-recent if nobody is writing",
    "allow-more-time": "increase --max-runtime: each run plans again, and planning did not finish",
    "continue-later": "the next run continues; increase --max-runtime if it happens every time",
    "show-plan-without-limit": "nothing was changed; show the plan with --dry-run, without "
    "--max-delete",
    "make-plan": "create a plan for this repository with --dry-run --plan FILE",
    "restore-or-expire": "restore it; or show with `icectl repair --dry-run` what would be lost "
    "without it",
    "restore-or-known-missing": "the reference may be damaged; for details, run "
    "`icectl validate --level chunks`, which writes the list for gc with --known-missing FILE",
    "restore-or-move-ref": "restore the file, or reset the ref to its last valid version with "
    "`icectl repair`",
    "validate-unknown-version": "if no newer version of Icechunk wrote it, the file is damaged; "
    "run `icectl validate`",
    "expire-without-logs": "rebuild the logs with `icectl repair`, or use only --older-than",
    "check-keep-rules": "no snapshot matches any rule; check the globs and `icectl log --all`",
    "give-expire-policy": "give --older-than, or rules such as --keep-last 10 --keep-daily 30",
    # maintain
    "wait-for-maintenance": "try again later, or wait for it with --wait 1h",
    # validate
    "list-rules": "list the rules with `icectl validate --explain all`",
    "write-baseline": "create one with `icectl validate --write-baseline FILE`",
    "install-zarr": "run pip install 'icectl[decode]', or omit --decode to only read the bytes",
    "allow-source": "{skipped!s}; --allow-source {source!s} allows {them!s}",
    # doctor
    "need-pyspark": "only --engine spark and sql need it",
    "need-icechunk": "the official package; only demo --writer icechunk needs it",
    "need-zarr": "only validate --decode and demo --writer icechunk need it",
    "need-vl-convert": "only report and stats --plot need it",
    "repair": "icectl repair",
    "try-conditional-writes": "omit --read-only to test it with a small object",
    # Spark
    "check-spark": "check --spark-conf and the logs of the Spark workers; it is safe to run again",
    "check-spark-start": "check --spark-master, --spark-remote and --spark-conf, and that the Java "
    "in JAVA_HOME, or else in PATH, is version 17 or newer",
    "export-tables": "write tables to files with `icectl export`",
    # Storage
    "follow-links": "if the link is intended, add --storage-option follow_links=true",
    "choose-rooted-keys": "choose one: --storage-option legacy_rooted_keys=true (with /) or "
    "legacy_rooted_keys=false",
    "check-aws-credentials": "check the credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID, or "
    "--storage-option anonymous=true) and their permissions; without permission to list, a missing "
    "object is also refused",
    "check-aws-profile": "check AWS_PROFILE and --storage-option profile=NAME",
    "check-aws-region": "check AWS_REGION, AWS_DEFAULT_REGION and --storage-option region=NAME",
    "check-google-credentials": "check the credentials (GOOGLE_APPLICATION_CREDENTIALS, gcloud, or "
    "--storage-option anonymous=true) and their roles on the bucket",
    "check-google-credentials-file": "check GOOGLE_APPLICATION_CREDENTIALS and --storage-option "
    "credentials_file=FILE",
    "check-azure-credentials": "check the credentials (AZURE_STORAGE_CONNECTION_STRING, "
    "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or --storage-option anonymous=true) and "
    "their permissions",
    "use-storage-address": "use the address of the storage itself; for a public bucket, s3:// or "
    "gs:// with --storage-option anonymous=true",
    "name-azure-account": "set AZURE_STORAGE_ACCOUNT_NAME, or add --storage-option account=NAME",
    "use-https-or-anonymous": "use an https:// endpoint, or add --storage-option anonymous=true",
}


STORAGE_OPTION = "--storage-option"


def shell_argument(text: str) -> str:
    """Quote a name that is an argument, even if it looks like an option."""
    return ("-- " if text.startswith("-") else "") + shlex.quote(text)


def describe_hint(
    hint: Hint, options: CommonOptions | None = None, storage_option: str = STORAGE_OPTION
) -> str:
    """The sentence for the user; its commands name the repository as `options` do.

    `storage_option`: what the running command calls it.
    """
    place = options.repository_words() if options is not None else ""
    if not isinstance(hint, Remedy):
        return _add_place(hint, place)
    # After `--` an option would be an argument.
    at_end = not any(fact.startswith("-") for fact in hint.facts.values())
    escaped = place.replace("{", "{{").replace("}", "}}")
    template = HINTS[hint.name].replace(STORAGE_OPTION, storage_option)
    template = _add_place(template, escaped, at_end=at_end)
    return _QuotingFormatter().vformat(template, (), hint.facts)


def _add_place(hint: str, place: str, *, at_end: bool = True) -> str:
    """Add the options that name the repository to each command in backticks."""
    from icectl.cli.app import called_command, parameters_of

    if not place:
        return hint

    def add(found: re.Match[str]) -> str:
        call = found[1]
        command = called_command(call.split())
        takes = {one.name for one in parameters_of(command)}
        if "repo" not in takes or takes & {"location", "file"} or " -r " in call:
            return found[0]
        rest = call.removeprefix(command)
        words = (command, rest, f" {place}") if at_end else (command, f" {place}", rest)
        return f"`icectl {''.join(words)}`"

    return re.sub("`icectl ([^`]+)`", add, hint)


class _QuotingFormatter(string.Formatter):
    """Quotes values without a conversion for the shell."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        if conversion is None:
            return shell_argument(value)
        return super().convert_field(value, conversion)
