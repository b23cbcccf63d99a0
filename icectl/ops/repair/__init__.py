"""Repair a repository: plan steps for what `validate` finds, execute them, report the rest.

`run` plans and executes. Each other module plans the steps for one kind of damage. Every step
decides again on the newest state when it is executed, and every write is conditional or
write-once: a repair that was killed leaves the repository no worse, and the next one finishes.
"""

import enum


class NamedStep(enum.StrEnum):
    """The actions that lose data, and are executed only if they are asked for."""

    RESTORE_REPO = "restore_repo"
    DELETE_TAG = "delete_tag"
    DROP_LOST_REFERENCES = "drop_lost_references"
    RELEASE_VERSIONS = "release_versions"
