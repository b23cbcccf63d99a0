"""Every rule that `validate` checks, by code: one list, in the order of the codes.

To find where a rule is checked, search `icectl/` for its name: ICE0302 is `MANIFEST_SIZE`, and
`checks/manifest.py` reports it. A code is never reused for another rule. The man page, the README
and `validate --explain` are generated from this list, and a test makes the damage of each rule.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

from icectl.errors import Remedy, UsageError

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
"""From the mildest to the worst."""


class Level(enum.IntEnum):
    """How deep `validate` looks; each level includes those before it."""

    REFS = 0
    METADATA = 1
    MANIFESTS = 2
    CHUNKS = 3
    DATA = 4


@dataclass(frozen=True, slots=True)
class Rule:
    code: str
    severity: Severity
    level: Level | None
    """None: checked with --virtual."""
    title: str
    explanation: str

    @property
    def level_name(self) -> str:
        return "--virtual" if self.level is None else self.level.name.lower()


_RESTORE_REPO = (
    "`icectl repair` replaces the file by the newest undamaged copy in overwritten/, and keeps "
    "commits that the copy does not list on branches of their own."
)
_SNAPSHOT_LOST = (
    "This version cannot be read. Versions before and after it are not affected. Restore the "
    "file from a copy of the bucket, or give the version up with `icectl repair`, which resets "
    "branches to an undamaged version."
)
_LOG_LOST = (
    "The data can still be read, but diffs over this commit and rebases of older sessions fail "
    "or are wrong. `icectl repair` rebuilds a missing or damaged log from the snapshots."
)
_MANIFEST_LOST = (
    "The chunks that the manifest refers to cannot be found, and gc refuses to run. Restore the "
    "file from a copy of the bucket, or give the chunks up with `icectl repair`."
)

# The repo file and the refs.

REPO_UNREADABLE = Rule(
    "ICE0001", "error", Level.REFS, "the repo file or a ref file cannot be read",
    "The entry point of the repository is damaged, so nothing that depends on it can be checked. "
    + _RESTORE_REPO,
)  # fmt: skip
REPO_SPEC_VERSION = Rule(
    "ICE0002", "error", Level.REFS, "the repo file contradicts its own spec version",
    "The file's header and its content name different versions of the specification, so one of "
    "them is damaged. " + _RESTORE_REPO,
)  # fmt: skip
REPO_ORDER = Rule(
    "ICE0003", "error", Level.REFS, "a list in the repo file is unsorted or has duplicates",
    "Branches, tags, deleted tags, snapshots and feature flags are sorted and unique. Readers use "
    "a binary search on these lists and miss entries that are out of order. " + _RESTORE_REPO,
)  # fmt: skip
REF_TARGET = Rule(
    "ICE0004", "error", Level.REFS, "a branch or tag points to a snapshot that does not exist",
    "The index of the ref is beyond the end of the list of snapshots (spec version 2), so the ref "
    "cannot be opened. Delete or reset the ref.",
)  # fmt: skip
PARENT_TARGET = Rule(
    "ICE0005", "error", Level.REFS, "the parent of a snapshot does not exist",
    "The index of the parent is beyond the end of the list of snapshots, so the history ends "
    "there. " + _RESTORE_REPO,
)  # fmt: skip
ANCESTRY_LOOP = Rule(
    "ICE0006", "error", Level.REFS, "the snapshot ancestry contains a cycle",
    "A snapshot is its own ancestor, so walking the history never ends. " + _RESTORE_REPO,
)  # fmt: skip
MAIN_MISSING = Rule(
    "ICE0007", "error", Level.REFS, "the branch main does not exist",
    "Every repository has a branch main, which clients open by default. Create it at the right "
    "snapshot with `icectl branch create main REF`.",
)  # fmt: skip
DELETED_TAG_EXISTS = Rule(
    "ICE0008", "error", Level.REFS, "a deleted tag exists",
    "The name of a deleted tag must never be reused, but this name is both a tag and in the list "
    "of deleted tags. A writer ignored the specification, or the file is damaged.",
)  # fmt: skip
ROOT_SNAPSHOT = Rule(
    "ICE0009", "error", Level.REFS, "the initial snapshot is missing or not the only one",
    "Exactly one snapshot has no parent. If there is none, the history has no beginning; if there "
    "are several, a parent was lost.",
)  # fmt: skip
FLAG_TWICE = Rule(
    "ICE0010", "error", Level.REFS, "a feature flag is both enabled and disabled",
    "Clients disagree on its meaning. Set the flag with `icectl flags set`.",
)  # fmt: skip
REPO_VALUE = Rule(
    "ICE0011", "error", Level.REFS, "the configuration or metadata of the repository is damaged",
    "The encoded value cannot be decoded, or a name occurs twice. Return to an earlier one with "
    "`icectl restore --to OP --only config` or `--only metadata`. Before spec version 2 the "
    "configuration is the file config.yaml: correct it, or delete it to use the defaults.",
)  # fmt: skip
STATUS_UNKNOWN = Rule(
    "ICE0012", "warning", Level.REFS, "the repo file contains something unknown to this icectl",
    "A newer version of the format has a status, a flag or a field that this version of icectl "
    "does not know. Use a newer icectl.",
)  # fmt: skip
OPS_LOG_ORDER = Rule(
    "ICE0013", "error", Level.REFS, "the ops log is out of order",
    "Entries are sorted newest first, each strictly newer than the next. Official clients refuse "
    "to add an entry that is not newer than the newest one.",
)  # fmt: skip
BACKUP_MISSING = Rule(
    "ICE0014", "warning", Level.REFS, "a copy of the repo file that the ops log names is missing",
    "The ops log cannot be read further back than this, and that state cannot be restored. "
    "Nothing else needs the copy. If all older copies are missing as well, a lifecycle rule "
    "removed them by age; they are then reported as a single finding with severity info.",
)  # fmt: skip
BACKUP_UNREADABLE = Rule(
    "ICE0015", "warning", Level.REFS, "a copy of the repo file that the ops log needs is damaged",
    "The ops log cannot be read further back than this, or that state cannot be restored. Nothing "
    "else needs the copy. Only the copies of the newest operation and of the chain are read; for "
    "the others, only the size is checked.",
)  # fmt: skip
STATE_UNEXPLAINED = Rule(
    "ICE0016", "error", Level.REFS, "the newest operation does not explain the state",
    "The repo file differs from its copy before the newest operation by more than that operation "
    "changed. Either the file is damaged, or a writer did not record its changes. Compare it with "
    "`icectl ops-log` and with the copy in overwritten/.",
)  # fmt: skip
PRUNED_LOGS = Rule(
    "ICE0017", "error", Level.REFS, "the list of logs of pruned ancestors is invalid",
    "pruned_ancestor_tx_logs is never empty, has no duplicates, and does not contain the snapshot "
    "itself.",
)  # fmt: skip
REF_FOREIGN = Rule(
    "ICE0018", "info", Level.REFS, "a file in refs/ is not a ref",
    "Its name follows no known layout, so it is ignored (spec version 1).",
)  # fmt: skip
NEWEST_HAS_BACKUP = Rule(
    "ICE0019", "warning", Level.REFS, "the newest entry of the ops log names a copy",
    "The newest state is the repo file itself; the next operation makes a copy of it and records "
    "its name. The repo file may be an older copy that was restored by hand.",
)  # fmt: skip
REPO_IS_OLD = Rule(
    "ICE0020", "error", Level.REFS, "the repo file does not continue the history of its copies",
    "The repo file was replaced by an older one or created again although newer changes existed: "
    "there are commits that no ref reaches and that copies from another history list. `icectl gc` "
    "refuses to run, and while the repo file is older than a copy, so does every command that "
    "changes the repository. `icectl repair` returns to the newer history, or gives the lost "
    "commits branches if both histories have some. Or keep the repo file as it is: "
    "`icectl status set online --accept-older-repo` allows changes, and "
    "`icectl gc --abandon-history` gives up what the copies list.",
)  # fmt: skip

FUTURE_TIME = Rule(
    "ICE0022", "error", Level.REFS, "the newest operation or the tip of a branch is in the future",
    "A client with a wrong clock wrote it, more than 600 s ahead of the storage's clock. Official "
    "clients only add newer entries: until that time, they refuse every change after such an "
    "operation, and every commit on such a branch. `icectl repair` adds an entry with the current "
    "time to the ops log. The time of a snapshot is never rewritten: reset the branch to its "
    "parent with `icectl branch reset BRANCH BRANCH~1` and commit the data again, or wait.",
)  # fmt: skip
CONDITIONS_OFF = Rule(
    "ICE0023", "warning", Level.REFS, "the configuration turns conditional writes off",
    "On an object store, official clients overwrite each other's commits with these settings. "
    "The official client stores them in a repository on local disk, and they are copied with it "
    "to S3 or GCS. `icectl repair` resets them to the default, and so does `icectl config set KEY "
    "null` for each. Keep them only if the storage does not support conditional writes.",
)  # fmt: skip

# Snapshots.

SNAPSHOT_MISSING = Rule(
    "ICE0101", "error", Level.METADATA, "a snapshot file is missing", _SNAPSHOT_LOST
)
SNAPSHOT_UNREADABLE = Rule(
    "ICE0102", "error", Level.METADATA, "a snapshot file is damaged", _SNAPSHOT_LOST
)
SNAPSHOT_ID = Rule(
    "ICE0103", "error", Level.METADATA, "a snapshot file contains the id of another snapshot",
    "The id in the file is not its name, so the file was copied to the wrong place. "
    + _SNAPSHOT_LOST,
)  # fmt: skip
SNAPSHOT_PARENT = Rule(
    "ICE0104", "error", Level.METADATA, "the parent in a snapshot file is wrong",
    "In spec version 2 only the repo file records parents; in version 1 every snapshot except the "
    "initial one has a parent.",
)  # fmt: skip
SNAPSHOT_VERSION = Rule(
    "ICE0105", "error", Level.METADATA, "a snapshot file mixes fields of two spec versions",
    "Version 2 uses shape_v2 and manifest_files_v2 and leaves shape and manifest_files empty; "
    "version 1 has no shape_v2 or manifest_files_v2.",
)  # fmt: skip
SNAPSHOT_INFO = Rule(
    "ICE0106", "error", Level.METADATA, "the repo file and a snapshot file contradict each other",
    "Both store the message, time and metadata of a commit, and these must be equal; one of the "
    "two files is damaged.",
)  # fmt: skip
NODE_ORDER = Rule(
    "ICE0107", "error", Level.METADATA, "the nodes of a snapshot are unsorted or have duplicates",
    "Nodes are sorted by path, and paths are unique. Readers use a binary search and miss nodes "
    "that are out of order.",
)  # fmt: skip
NODE_PATH = Rule(
    "ICE0108", "error", Level.METADATA, "the path of a node is invalid",
    "A path is absolute, does not end with a slash, and has no component that is empty or "
    "consists only of dots.",
)  # fmt: skip
NODE_ID_TWICE = Rule(
    "ICE0109", "error", Level.METADATA, "two nodes have the same id",
    "Chunks and changes belong to a node id, so two arrays with one id would share their chunks.",
)  # fmt: skip
NODE_PARENT = Rule(
    "ICE0110", "info", Level.METADATA, "a node does not belong to a group",
    "Its parent does not exist or is an array, so readers that walk the hierarchy do not find it. "
    "This happens when the session that created the node is rebased onto a version in which the "
    "group was deleted.",
)  # fmt: skip
SNAPSHOT_METADATA = Rule(
    "ICE0111", "error", Level.METADATA, "the metadata of a commit is damaged or unsorted",
    "Names are sorted and unique, and values are FlexBuffers (spec version 2) or MessagePack.",
)  # fmt: skip
MANIFEST_LIST = Rule(
    "ICE0112", "error", Level.METADATA, "the list of manifests is unsorted or has duplicates",
    "The list is sorted by id, and ids are unique.",
)  # fmt: skip
MANIFEST_UNLISTED = Rule(
    "ICE0113", "error", Level.METADATA, "an array refers to a manifest that is not listed",
    "The snapshot must list every manifest with its size and count. gc and copies rely on that "
    "list and would lose this manifest.",
)  # fmt: skip
MANIFEST_UNUSED = Rule(
    "ICE0114", "warning", Level.METADATA, "no array refers to a listed manifest",
    "The manifest only takes up space, or an array lost its reference to it.",
)  # fmt: skip
MANIFEST_CLAIMS = Rule(
    "ICE0115", "error", Level.METADATA, "snapshots disagree about a manifest",
    "The size and count of a manifest never change, so one of the snapshots is damaged.",
)  # fmt: skip
EXTENTS_SHAPE = Rule(
    "ICE0116", "error", Level.METADATA, "the extents of a manifest are invalid",
    "Extents have one range for each dimension, and each range ends after it starts.",
)  # fmt: skip
EXTENTS_OVERLAP = Rule(
    "ICE0117", "error", Level.METADATA, "the extents of two manifests overlap",
    "At most one manifest covers each chunk. If two cover it, the result depends on the reader.",
)  # fmt: skip
EXTENTS_GRID = Rule(
    "ICE0118", "warning", Level.METADATA, "the extents of a manifest exceed the chunk grid",
    "Chunks outside the grid are never read. This is normal after an array was shrunk, until its "
    "manifests are rewritten.",
)  # fmt: skip
ZARR_METADATA = Rule(
    "ICE0119", "error", Level.METADATA, "the zarr.json of a node is damaged",
    "It is not valid JSON, an array lacks its chunk grid or codecs, or its node type is not the "
    "one in the snapshot.",
)  # fmt: skip
ZARR_SHAPE = Rule(
    "ICE0120", "error", Level.METADATA, "the shape of an array contradicts its zarr.json",
    "The shape, number of chunks or dimension names in the snapshot differ from those in "
    "zarr.json, so readers of the two see different arrays.",
)  # fmt: skip
NODE_UNKNOWN = Rule(
    "ICE0121", "warning", Level.METADATA, "a snapshot contains something unknown to this icectl",
    "A newer version of the format has a kind of node or a field that this version of icectl does "
    "not know. Use a newer icectl.",
)  # fmt: skip
NODE_COMPONENT_ORDER = Rule(
    "ICE0122", "warning", Level.METADATA, "nodes are sorted in an order that official clients miss",
    "The specification sorts paths by components (/a/b before /a-b), but every official release "
    "writes and searches them by the bytes of the whole path (/a-b before /a/b), and does not "
    "find some nodes of this snapshot.",
)  # fmt: skip

# Transaction logs.

LOG_MISSING = Rule("ICE0201", "error", Level.METADATA, "a transaction log is missing", _LOG_LOST)
LOG_UNREADABLE = Rule("ICE0202", "error", Level.METADATA, "a transaction log is damaged", _LOG_LOST)
LOG_ID = Rule(
    "ICE0203", "error", Level.METADATA, "a transaction log contains the id of another snapshot",
    "The id in the file is not its name. " + _LOG_LOST,
)  # fmt: skip
LOG_ORDER = Rule(
    "ICE0204", "error", Level.METADATA, "a list in a transaction log is unsorted or has duplicates",
    "Nodes are sorted by id, chunks by coordinates and moves by their new path, without "
    "duplicates.",
)  # fmt: skip
LOG_TWICE = Rule(
    "ICE0205", "info", Level.METADATA, "a node is in two lists of a transaction log",
    "In one commit, a node is either new, deleted or updated. The log of an amended commit also "
    "contains the changes of the commit that it replaced; diffs may show the node twice.",
)  # fmt: skip
LOG_NOT_EMPTY = Rule(
    "ICE0206", "error", Level.METADATA, "the transaction log of the initial snapshot is not empty",
    "The initial snapshot changes nothing.",
)  # fmt: skip
LOG_CLAIMS = Rule(
    "ICE0207", "error", Level.METADATA, "a transaction log contradicts the snapshots",
    "A new or updated node does not exist, a deleted node still exists, or its type differs.",
)  # fmt: skip
LOG_OMITS = Rule(
    "ICE0208", "error", Level.METADATA, "a node changed without an entry in the transaction log",
    "The node differs between a snapshot and its parent, but the log does not mention it: one of "
    "the three files is damaged. Compare them with `icectl diff` and `icectl show`.",
)  # fmt: skip
LOG_CHUNKS = Rule(
    "ICE0209", "error", Level.METADATA, "a transaction log lists impossible chunks",
    "The node is not an array, or the coordinates do not have as many dimensions as the array.",
)  # fmt: skip
LOG_MOVES = Rule(
    "ICE0210", "error", Level.METADATA, "a move in a transaction log is wrong",
    "A moved node was at the old path before and is at the new path afterwards. It is moved once, "
    "together with its children, and never onto another node.",
)  # fmt: skip
LOG_INITIAL = Rule(
    "ICE0211", "info", Level.METADATA, "the initial snapshot has no transaction log",
    "Writers before spec version 2 did not write one. Nothing needs it.",
)  # fmt: skip
LOG_NO_EFFECT = Rule(
    "ICE0212", "info", Level.METADATA, "a transaction log lists a change without effect",
    "The node is in neither version, or a node that is listed as deleted is in both. This happens "
    "when the session that changed or deleted the node is rebased onto a version that lacks the "
    "node or has it at another path. Nothing is lost.",
)  # fmt: skip

# Manifests.

MANIFEST_MISSING = Rule(
    "ICE0301", "error", Level.METADATA, "a manifest file is missing", _MANIFEST_LOST
)
MANIFEST_SIZE = Rule(
    "ICE0302", "error", Level.METADATA, "the size of a manifest file contradicts its snapshots",
    "The file was truncated or replaced. " + _MANIFEST_LOST,
)  # fmt: skip
MANIFEST_UNREADABLE = Rule(
    "ICE0303", "error", Level.MANIFESTS, "a manifest file is damaged", _MANIFEST_LOST
)
MANIFEST_ID = Rule(
    "ICE0304", "error", Level.MANIFESTS, "a manifest file contains the id of another manifest",
    "The id in the file is not its name. " + _MANIFEST_LOST,
)  # fmt: skip
MANIFEST_COUNT = Rule(
    "ICE0305", "error", Level.MANIFESTS,
    "the number of references in a manifest contradicts its snapshots",
    "References were lost, or one of the files is damaged. " + _MANIFEST_LOST,
)  # fmt: skip
MANIFEST_ARRAYS = Rule(
    "ICE0306", "error", Level.MANIFESTS, "the arrays of a manifest are unsorted or have duplicates",
    "They are sorted by node id and unique; readers use a binary search.",
)  # fmt: skip
REFERENCE_ORDER = Rule(
    "ICE0307", "error", Level.MANIFESTS, "chunk references are out of order",
    "They are sorted by coordinates. Readers use a binary search and return the fill value for "
    "references that they miss.",
)  # fmt: skip
REFERENCE_TWICE = Rule(
    "ICE0308", "error", Level.MANIFESTS, "a chunk has two references",
    "Which one is used depends on the reader.",
)  # fmt: skip
REFERENCE_KIND = Rule(
    "ICE0309", "error", Level.MANIFESTS, "a reference is not of exactly one kind",
    "A reference contains exactly one of a chunk id, a location, or the data of the chunk.",
)  # fmt: skip
REFERENCE_EXTENTS = Rule(
    "ICE0310", "error", Level.MANIFESTS, "a reference is outside the extents of its manifest",
    "Readers choose the manifest by its extents, so they never find this reference.",
)  # fmt: skip
REFERENCE_DIMENSIONS = Rule(
    "ICE0311", "error", Level.MANIFESTS, "the coordinates of a reference do not fit the array",
    "They do not have as many dimensions as the array.",
)  # fmt: skip
REFERENCE_EMPTY = Rule(
    "ICE0312", "warning", Level.MANIFESTS, "a reference has length zero",
    "No codec decodes an empty chunk: readers fail, while a missing chunk would read as the fill "
    "value.",
)  # fmt: skip
REFERENCE_LOCATION = Rule(
    "ICE0313", "error", Level.MANIFESTS, "the location of a virtual reference is damaged",
    "It cannot be decompressed, or it is not an absolute URL.",
)  # fmt: skip
REFERENCE_CHECKSUMS = Rule(
    "ICE0314", "warning", Level.MANIFESTS, "a virtual reference has two checksums",
    "Both an etag and a time are stored; the specification allows only one.",
)  # fmt: skip
REFERENCE_SHARED = Rule(
    "ICE0315", "info", Level.MANIFESTS, "two references name the same bytes of one chunk file",
    "Writers create a separate file for each chunk, but moving chunks within an array (the "
    "official reindex_array) leaves two references to one file. A damaged reference can also look "
    "like this.",
)  # fmt: skip
REFERENCE_UNLOGGED = Rule(
    "ICE0316", "error", Level.MANIFESTS, "a chunk changed without an entry in the transaction log",
    "The reference differs between a snapshot and its parent, but the log does not list the "
    "chunk: one of the files is damaged.",
)  # fmt: skip
ARRAY_UNREFERENCED = Rule(
    "ICE0317", "warning", Level.MANIFESTS, "a manifest has no references of an array that uses it",
    "The array does not need the manifest, or the manifest lost the references of the array.",
)  # fmt: skip

# Chunks.

CHUNK_MISSING = Rule(
    "ICE0401", "error", Level.CHUNKS, "a chunk file is missing",
    "Reading this part of the array fails. Write the chunk again in a new commit, or restore the "
    "file from a copy of the bucket (`icectl validate --missing FILE` writes the list). To accept "
    "the loss, replace the chunks by the fill value with `icectl repair`.",
)  # fmt: skip
CHUNK_SHORT = Rule(
    "ICE0402", "error", Level.CHUNKS, "a chunk file is shorter than its references require",
    "The file was truncated. Reading this part of the array fails.",
)  # fmt: skip
CHUNK_LONG = Rule(
    "ICE0403", "warning", Level.CHUNKS, "a chunk file has bytes that no reference uses",
    "A file may contain several chunks, but official writers create one file for each: the length "
    "in the reference, or the file, may be damaged.",
)  # fmt: skip
ORPHANS = Rule(
    "ICE0404", "info", Level.CHUNKS, "objects are not referenced by any version",
    "They were left by expired versions or abandoned sessions, or a writer is about to commit "
    "them. `icectl gc` deletes them.",
)  # fmt: skip
FOREIGN = Rule(
    "ICE0405", "info", Level.CHUNKS, "a file is not an object of the repository",
    "Its name is not an id. icectl and official clients ignore it and never delete it.",
)  # fmt: skip
CHUNK_UNREADABLE = Rule(
    "ICE0501", "error", Level.DATA, "the bytes of a chunk cannot be read",
    "The storage failed to return them, or returned fewer than the reference requires.",
)  # fmt: skip
CHUNK_UNDECODABLE = Rule(
    "ICE0502", "error", Level.DATA, "a chunk cannot be decoded",
    "The codecs in zarr.json reject the bytes (with --decode): the chunk or the zarr.json is "
    "damaged.",
)  # fmt: skip
CODECS_UNKNOWN = Rule(
    "ICE0503", "warning", Level.DATA, "chunks were not decoded because a codec is not available",
    "The codecs in the array's zarr.json are not installed, or zarr-python does not accept the "
    "zarr.json.",
)  # fmt: skip
CHUNK_TOO_LARGE = Rule(
    "ICE0504", "warning", Level.DATA, "a chunk was not decoded because it is too large",
    "The ratio of its decoded size to its stored size exceeds the limit CHUNK_RATIO. The chunk is "
    "valid, but decoding it could exhaust the memory; read it with zarr.",
)  # fmt: skip

# Sources of virtual chunks.

SOURCE_MISSING = Rule(
    "ICE0601", "error", None, "the source of virtual chunks is missing",
    "The file that the references point to does not exist. Reading these chunks fails.",
)  # fmt: skip
SOURCE_SHORT = Rule(
    "ICE0602", "error", None, "the source of virtual chunks is shorter than references require",
    "The file changed after the references were created. Reading these chunks fails.",
)  # fmt: skip
SOURCE_CHANGED = Rule(
    "ICE0603", "error", None, "the source of virtual chunks changed",
    "Its etag is not the stored one, or it was modified after the stored time, so readers refuse "
    "these chunks. Create the references again.",
)  # fmt: skip
SOURCE_CONTAINER = Rule(
    "ICE0604", "warning", None, "no container covers the source of virtual chunks",
    "The repository's configuration has no virtual chunk container whose prefix matches the "
    "location, or whose name is the one in a vcc:// location, so readers refuse these chunks.",
)  # fmt: skip
SOURCE_UNCHECKED = Rule(
    "ICE0605", "warning", None, "the source of virtual chunks could not be checked",
    "No storage is known for the location, or the storage refused the request, so it is unknown "
    "whether the source exists.",
)  # fmt: skip

RULES = {rule.code: rule for rule in tuple(globals().values()) if isinstance(rule, Rule)}


def find_rules(code: str) -> list[Rule]:
    """The rule with this code, or every rule for `all`."""
    if code.lower() == "all":
        return list(RULES.values())
    rule = RULES.get(code.upper())
    if rule is None:
        raise UsageError(f"there is no rule {code!r}", hint=Remedy("list-rules"))
    return [rule]
