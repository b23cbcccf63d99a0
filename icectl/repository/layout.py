"""The directories of a repository."""

from __future__ import annotations

from dataclasses import dataclass

from icectl.model.ids import ObjectId


@dataclass(frozen=True, slots=True)
class Layout:
    refs: str
    snapshots: str
    manifests: str
    transactions: str | None
    """None if the generation has no transaction logs."""
    chunks: str
    attributes: str | None = None
    """Early generations could keep user attributes in files of their own."""

    def snapshot(self, snapshot_id: ObjectId) -> str:
        return f"{self.snapshots}/{snapshot_id}"

    def manifest(self, manifest_id: ObjectId) -> str:
        return f"{self.manifests}/{manifest_id}"


STANDARD = Layout("refs", "snapshots", "manifests", "transactions", "chunks", "attributes")
"""Every released writer."""

DRAFT = Layout("r", "s", "m", None, "c", "a")
"""The early draft of the specification with one-letter prefixes."""

ROOT_DIRECTORIES = (
    (STANDARD.refs, STANDARD.snapshots),
    (DRAFT.refs, DRAFT.snapshots),
    (STANDARD.snapshots, "overwritten"),
)
"""Each is found in the root of repositories: before V2, of the draft, of V2 without `repo`."""

CONFIG_PATH = "config.yaml"
"""The configuration up to spec version 1; version 2 keeps it in `repo`."""
