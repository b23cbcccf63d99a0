"""The words for every remedy that the layers below name: commands and options to paste.

A fact in braces is quoted for the shell, so that it can be part of a command; `!s` leaves it as
it is, for use outside of one.
"""

from __future__ import annotations

import shlex
import string
from typing import Any

from icectl.errors import Hint, Remedy

HINTS = {
    # Repositories
    "create-repository": "`icectl init {location}` makes one",
    "create-below": "`icectl init {location}` makes one in it",
    "create-repository-there": "icectl init makes one",
    "add-prefix": "add a prefix: `icectl init {location}`",
    "finish-init": "look with `icectl log -r {location}` whether it is a repository by now; what a "
    "killed init left is finished with --spec-version {spec_version}",
    "restore-or-finish-init": "restore them from a copy; after an interrupted init: "
    "`icectl init {location}`",
    "restore-backup": "there {backups!s} of `{name}`, the newest from {moment!s}: the state before "
    "the last change, which it lacks. Inspect it with `icectl inspect-file {backup}`; to go back "
    "to it while nobody writes: `{copy!s} {backup} {repo}`",
    "name-repository": "name the repository with -r {location}",
    "omit-repository": "for a file elsewhere, leave out -r",
    "make-demo": "icectl demo demo-repo",
    "install-demo": "run pip install 'icectl[demo]', or omit --writer to let icectl write it",
    # Refs, commits and nodes
    "list-refs": "`icectl branch list` and `icectl tag list` show the names",
    "list-ancestors": "`icectl log {ref}` lists them",
    "list-nodes": "`icectl ls` lists the nodes",
    "list-newer-nodes": "`icectl ls {snapshot}` shows the nodes of the newer one",
    "list-first-snapshot": "`icectl ls {ref}` shows what is in it",
    "show-commit-times": "`icectl log {ref}` shows their times",
    "show-all-commits": "`icectl log --all` shows its commits",
    "look-at-log": "somebody moved it: look at `icectl log` and decide again",
    "create-branch": "`icectl branch create {branch} REF` brings it back",
    "reset-branch": "`icectl branch reset {branch} REF` moves it",
    "move-branch-to-snapshot": "`icectl branch reset {branch} REF` moves it to another snapshot",
    "rewrite-ref": 'it should hold {{"snapshot":"ID"}}, with the id of a file in snapshots/; '
    "`icectl inspect-file` shows what such a file is, `icectl validate` the other refs",
    "omit-merge-base": "leave out --merge-base to compare their content",
    "omit-refs": "leave out --refs",
    # Settings
    "set-online": "`icectl status set online` opens it for changes",
    "enable-flag": "`icectl flags set {flag} on` allows it",
    "show-config": "`icectl config get` shows what it has",
    "configure-new-repository": "give it to a new repository with `icectl init --config-file`, or "
    "use the official package's `Repository.save_config`",
    # The ops log and its backups
    "look-at-ops-log": "whether the change was made is not known: look at `icectl ops-log`",
    "repair-ops-log": "run `icectl repair`, which gives the ops log a newest entry of today",
    "set-clock": "set the clock of this machine, then compare it with `icectl doctor`",
    "check-ops-log-or-known-missing": "so nobody can tell whether an older repo file was put back; "
    "when `icectl ops-log` shows all that should be there, name it with --known-missing",
    "return-or-accept-older-repo": "find out who put it there; to return to the newer history, "
    "copy {path} to {repo} while nobody writes (it lacks the very last change); to continue with "
    "the older one, run `icectl status set online --accept-older-repo`",
    "return-or-abandon-history": "an older repo file was put back, or it was created again; to "
    "return to that history, copy {path} to {repo} while nobody writes; to give it up, run "
    "`icectl gc --older-than 7d --abandon-history {backup}`",
    "find-lost-line": "`icectl validate` names the newest backup of a lost line",
    "compare-repo-file": "the repo file may be damaged: compare it with `icectl ops-log` and its "
    "backups; a backup that is known to be wrong can be named with --known-missing",
    "confirm-last-change": "`icectl log {ref}` shows where it points; when that is right, confirm "
    "it with any other change, such as a tag",
    "restore-or-excuse-backup": "restore it; or, when its loss is understood, name it with "
    "--known-missing",
    "excuse-unreadable-backup": "so nobody can tell whether only it lists some commits; when its "
    "loss is understood, name it with --known-missing",
    # gc and expire
    "allow-recent": "give --older-than at least 1d, or add --allow-recent when nobody is writing",
    "allow-recent-backups": "give --overwritten-older-than at least 1d, or the same time as "
    "--older-than with --allow-recent when nobody is writing",
    "allow-more-time": "planning starts over with each run: give --max-runtime more time than that "
    "takes",
    "show-plan-without-limit": "nothing was changed; --dry-run without --max-delete shows the plan",
    "make-plan": "make a plan of this repository with --dry-run --plan FILE",
    "restore-or-expire": "restore it; or let go of the versions that need it, which "
    "`icectl validate` names: reset branches, delete tags, and `icectl expire` what lies in the "
    "past",
    "restore-or-known-missing": "the reference may be damaged: `icectl validate --level chunks` "
    "shows more, and with --known-missing FILE writes the list that gc takes by the same name",
    "restore-or-move-ref": "restore the file, or delete or reset the ref; `icectl validate` names "
    "the last sound version",
    "validate-unknown-version": "if no newer version of Icechunk wrote it, the file is damaged: "
    "`icectl validate` shows more",
    "expire-without-logs": "diffs need the logs of what is released; --older-than alone does "
    "without",
    "check-keep-rules": "no snapshot fits any rule: look at the globs and at `icectl log --all`",
    "give-expire-policy": "give --older-than, or rules such as --keep-last 10 --keep-daily 30",
    # validate
    "list-rules": "`icectl validate --explain all` lists them",
    "write-baseline": "`icectl validate --write-baseline FILE` writes one",
    "install-zarr": "run pip install 'icectl[decode]', or omit --decode to read the bytes only",
    "allow-source": "{skipped!s}; --allow-source {source!s} allows {them!s}",
    # doctor
    "need-pyspark": "only --engine spark and sql need it",
    "need-icechunk": "the official package; only demo --writer icechunk needs it",
    "need-zarr": "only validate --decode and demo --writer icechunk need it",
    "repair": "icectl repair",
    "try-conditional-writes": "without --read-only one small object is written",
    # Spark
    "check-spark": "check --spark-conf and what Spark's workers log; running it again is safe",
    "check-spark-start": "check --spark-master, --spark-remote and --spark-conf, and that the Java "
    "of JAVA_HOME or else of PATH is 17 or newer",
    "export-tables": "`icectl export` writes tables to files",
    # Storage
    "follow-links": "if the link is intended, add --storage-option follow_links=true",
    "choose-rooted-keys": "choose one: --storage-option legacy_rooted_keys=true (with /) or "
    "legacy_rooted_keys=false",
    "check-aws-credentials": "check the credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID, or "
    "--storage-option anonymous=true) and their permissions; without the right to list, a missing "
    "object is refused too",
    "check-aws-profile": "check AWS_PROFILE and --storage-option profile=NAME",
    "check-aws-region": "check AWS_REGION, AWS_DEFAULT_REGION and --storage-option region=NAME",
    "check-google-credentials": "check the credentials (GOOGLE_APPLICATION_CREDENTIALS, gcloud, or "
    "--storage-option anonymous=true) and their roles on the bucket",
    "check-google-credentials-file": "check GOOGLE_APPLICATION_CREDENTIALS and --storage-option "
    "credentials_file=FILE",
    "use-https-or-anonymous": "name an https:// endpoint, or add --storage-option anonymous=true",
}


def shell_word(text: str) -> str:
    """A name from anywhere, for a command that a user may paste into a shell."""
    return shlex.quote(text)


def shell_argument(text: str) -> str:
    """The same for a name that is an argument, even if it looks like an option."""
    return f"-- {shell_word(text)}" if text.startswith("-") else shell_word(text)


def describe_hint(hint: Hint) -> str:
    """The sentence for the user."""
    if isinstance(hint, Remedy):
        return _QuotingFormatter().vformat(HINTS[hint.name], (), hint.facts)
    return hint


class _QuotingFormatter(string.Formatter):
    """Quotes for the shell whatever has no conversion."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        if conversion is None:
            return shell_argument(value)
        return super().convert_field(value, conversion)
