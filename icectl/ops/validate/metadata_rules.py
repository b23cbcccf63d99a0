"""The rules about the repo file, refs, snapshots and transaction logs."""

from __future__ import annotations

from icectl.ops.validate.rule import Level, Rule

_RESTORE_REPO = (
    "overwritten/ holds older copies of the repo file; the newest sound one can be put in its "
    "place while nobody writes."
)
_SNAPSHOT_LOST = (
    "That version cannot be read. Versions before and after it are not affected; restore the "
    "file from a copy of the bucket, or reset branches to a sound version."
)
_LOG_LOST = (
    "Data can be read all the same, but diffs over this commit and rebases of older sessions "
    "are wrong or fail."
)

# The repo file and the refs.

REPO_UNREADABLE = Rule(
    "ICE0001", "error", Level.REFS, "the repo file or a ref file cannot be read",
    "The entry point of the repository is damaged, and nothing behind it can be judged. "
    + _RESTORE_REPO,
)  # fmt: skip
REPO_SPEC_VERSION = Rule(
    "ICE0002", "error", Level.REFS, "the repo file contradicts its own spec version",
    "The header of the file and its content name different versions of the specification, so "
    "one of them is damaged. " + _RESTORE_REPO,
)  # fmt: skip
REPO_ORDER = Rule(
    "ICE0003", "error", Level.REFS, "a list of the repo file is out of order or repeats",
    "Branches, tags, deleted tags, snapshots and feature flags are sorted, each once. Readers "
    "search these lists by halves and miss what stands in the wrong place. " + _RESTORE_REPO,
)  # fmt: skip
REF_TARGET = Rule(
    "ICE0004", "error", Level.REFS, "a branch or tag points to no snapshot",
    "The index of the ref is beyond the list of snapshots (spec version 2), so that the ref "
    "cannot be opened. Delete or reset the ref.",
)  # fmt: skip
PARENT_TARGET = Rule(
    "ICE0005", "error", Level.REFS, "the parent of a snapshot does not exist",
    "The parent's index is beyond the list of snapshots, so that the history ends there. "
    + _RESTORE_REPO,
)  # fmt: skip
ANCESTRY_LOOP = Rule(
    "ICE0006", "error", Level.REFS, "the history runs in a circle",
    "A snapshot is its own ancestor, so that no walk through the history ends. " + _RESTORE_REPO,
)  # fmt: skip
MAIN_MISSING = Rule(
    "ICE0007", "error", Level.REFS, "there is no branch main",
    "A repository always has a branch main; clients open it when nothing else is said. Create "
    "it at the right snapshot with `icectl branch create main REF`.",
)  # fmt: skip
DELETED_TAG_EXISTS = Rule(
    "ICE0008", "error", Level.REFS, "a deleted tag exists",
    "The name of a deleted tag is never used again, yet this one is a tag and in the list of "
    "deleted tags. Somebody wrote it without the rules, or the file is damaged.",
)  # fmt: skip
ROOT_SNAPSHOT = Rule(
    "ICE0009", "error", Level.REFS, "the first snapshot is missing or not the only one",
    "Exactly one snapshot has no parent. Without it the history has no beginning; with "
    "several, a parent was lost.",
)  # fmt: skip
FLAG_TWICE = Rule(
    "ICE0010", "error", Level.REFS, "a feature flag is both enabled and disabled",
    "Clients do not agree what it means. Set the flag with `icectl flags set`.",
)  # fmt: skip
REPO_VALUE = Rule(
    "ICE0011", "error", Level.REFS, "the configuration or metadata of the repository is damaged",
    "The encoded value cannot be decoded, or a name occurs twice. Set it again with "
    "`icectl config set` or `icectl metadata set`. Before spec version 2 the configuration is the "
    "file config.yaml: mend it, or delete it, and the defaults hold.",
)  # fmt: skip
STATUS_UNKNOWN = Rule(
    "ICE0012", "warning", Level.REFS, "the repo file says something that this icectl cannot know",
    "A status, a flag or a field of a newer version of the format. Use a newer icectl.",
)  # fmt: skip
OPS_LOG_ORDER = Rule(
    "ICE0013", "error", Level.REFS, "the ops log is out of order",
    "Entries stand newest first, each strictly newer than the next. Official clients refuse to "
    "update a repository whose newest entry is not older than the new one.",
)  # fmt: skip
BACKUP_MISSING = Rule(
    "ICE0014", "warning", Level.REFS, "a copy of the repo file that the ops log names is missing",
    "The ops log cannot be followed further back than this, and that state cannot be restored. "
    "Nothing else needs the copy. Where all older copies are gone as well, a lifecycle rule "
    "cleared them by age: that is one finding with their count, for information.",
)  # fmt: skip
BACKUP_UNREADABLE = Rule(
    "ICE0015", "warning", Level.REFS, "a copy of the repo file that the ops log needs is damaged",
    "The ops log cannot be followed further back than this, or that state cannot be restored. "
    "Nothing else needs the copy. Those of the newest operation and of the chain are read; of "
    "the others only the size is looked at.",
)  # fmt: skip
STATE_UNEXPLAINED = Rule(
    "ICE0016", "error", Level.REFS, "the newest operation does not explain the state",
    "The repo file differs from its copy of before the newest operation by more than that "
    "operation did. Either the file is damaged, or a writer did not record what it did. Compare "
    "with `icectl ops-log` and with the copy in overwritten/.",
)  # fmt: skip
PRUNED_LOGS = Rule(
    "ICE0017", "error", Level.REFS, "the list of logs of pruned ancestors is wrong",
    "pruned_ancestor_tx_logs is never empty, names each log once, and never the snapshot itself.",
)  # fmt: skip
REF_FOREIGN = Rule(
    "ICE0018", "info", Level.REFS, "a file below refs/ is no ref",
    "Its name follows no known layout; it is ignored (spec version 1).",
)  # fmt: skip
NEWEST_HAS_BACKUP = Rule(
    "ICE0019", "warning", Level.REFS, "the newest entry of the ops log names a copy",
    "The newest state is the repo file itself; a copy is made, and named, by the next operation. "
    "The repo file looks as if an older copy had been put in its place by hand.",
)  # fmt: skip
REPO_IS_OLD = Rule(
    "ICE0020", "error", Level.REFS, "the repo file does not continue the history of its copies",
    "Somebody put an older repo file in its place or created it again, whatever was written since: "
    "commits are there that no ref leads to and that copies of another history list. `icectl gc` "
    "refuses to run, and while the repo file is older than a copy, so does every change. Put the "
    "copy that the finding names in its place while nobody writes; no copy has the very last "
    "change before. Or continue with the repo file as it is: `icectl status set online "
    "--accept-older-repo` allows changes, and `icectl gc --abandon-history` gives up what the "
    "copies list.",
)  # fmt: skip

FUTURE_TIME = Rule(
    "ICE0022", "error", Level.REFS, "the newest operation or the tip of a branch is in the future",
    "A client with a wrong clock wrote it, more than 600 s ahead of the storage's clock. Official "
    "clients only add what is newer: until that time has come, they refuse every change after "
    "such an operation, and every commit on such a branch. `icectl repair` gives the ops log a "
    "newest entry of today. The time of a snapshot is never rewritten: reset the branch to its "
    "parent with `icectl branch reset BRANCH BRANCH~1` and commit the data again, or wait.",
)  # fmt: skip
CONDITIONS_OFF = Rule(
    "ICE0023", "warning", Level.REFS, "the configuration turns conditional writes off",
    "On an object store, official clients overwrite each other's commits with these settings. "
    "The official client stores them in a repository on local disk, and they come along when it "
    "is copied to S3 or GCS. `icectl repair` returns them to the default, and so does `icectl "
    "config set KEY null` for each. Leave them only where the storage has no conditional writes.",
)  # fmt: skip

# Snapshots.

SNAPSHOT_MISSING = Rule(
    "ICE0101", "error", Level.METADATA, "a snapshot file is missing", _SNAPSHOT_LOST
)
SNAPSHOT_UNREADABLE = Rule(
    "ICE0102", "error", Level.METADATA, "a snapshot file is damaged", _SNAPSHOT_LOST
)
SNAPSHOT_ID = Rule(
    "ICE0103", "error", Level.METADATA, "a snapshot file has the id of another",
    "The id inside is not the file's name: a file was copied to the wrong place. " + _SNAPSHOT_LOST,
)  # fmt: skip
SNAPSHOT_PARENT = Rule(
    "ICE0104", "error", Level.METADATA, "the parent in a snapshot file is wrong",
    "Spec version 2 keeps parents in the repo file alone; in version 1 only the first snapshot "
    "has none.",
)  # fmt: skip
SNAPSHOT_VERSION = Rule(
    "ICE0105", "error", Level.METADATA, "a snapshot file mixes fields of two spec versions",
    "Version 2 uses shape_v2 and manifest_files_v2 and leaves shape and manifest_files empty; "
    "version 1 has neither.",
)  # fmt: skip
SNAPSHOT_INFO = Rule(
    "ICE0106", "error", Level.METADATA, "the repo file and a snapshot file contradict each other",
    "Message, time and metadata of a commit are stored in both and must be the same; one of the "
    "two files is damaged.",
)  # fmt: skip
NODE_ORDER = Rule(
    "ICE0107", "error", Level.METADATA, "nodes are out of order or repeat",
    "Nodes are sorted by path, each path once. Readers search them by halves and miss "
    "what stands in the wrong place.",
)  # fmt: skip
NODE_PATH = Rule(
    "ICE0108", "error", Level.METADATA, "a node has a path that is not allowed",
    "A path is absolute, has no slash at its end, and no part that is empty or only dots.",
)  # fmt: skip
NODE_ID_TWICE = Rule(
    "ICE0109", "error", Level.METADATA, "two nodes have one id",
    "Chunks and changes are told apart by the node's id, so that two arrays would share theirs.",
)  # fmt: skip
NODE_PARENT = Rule(
    "ICE0110", "info", Level.METADATA, "a node is in no group",
    "The node above it does not exist, or is an array. Readers that walk the hierarchy do not "
    "find it. A session that created it was rebased onto a version in which the group was deleted.",
)  # fmt: skip
SNAPSHOT_METADATA = Rule(
    "ICE0111", "error", Level.METADATA, "the metadata of a commit is damaged or out of order",
    "Names are sorted, each once, and values are FlexBuffers (spec version 2) or MessagePack.",
)  # fmt: skip
MANIFEST_LIST = Rule(
    "ICE0112", "error", Level.METADATA, "the list of manifests is out of order or repeats",
    "The list is sorted by id, each once.",
)  # fmt: skip
MANIFEST_UNLISTED = Rule(
    "ICE0113", "error", Level.METADATA, "an array refers to a manifest that is not listed",
    "The snapshot must list every manifest with its size and count; gc and copies go by that "
    "list and would lose this one.",
)  # fmt: skip
MANIFEST_UNUSED = Rule(
    "ICE0114", "warning", Level.METADATA, "a manifest is listed that no array refers to",
    "It costs space, or an array lost its reference to it.",
)  # fmt: skip
MANIFEST_CLAIMS = Rule(
    "ICE0115", "error", Level.METADATA, "snapshots disagree about a manifest",
    "Size and count of a manifest never change, so one of the snapshots is damaged.",
)  # fmt: skip
EXTENTS_SHAPE = Rule(
    "ICE0116", "error", Level.METADATA, "the extents of a manifest are not a region",
    "There is one range for each dimension, and its end is behind its start.",
)  # fmt: skip
EXTENTS_OVERLAP = Rule(
    "ICE0117", "error", Level.METADATA, "the extents of two manifests overlap",
    "Each chunk is covered by one manifest at most; where two cover it, which one is read "
    "depends on the reader.",
)  # fmt: skip
EXTENTS_GRID = Rule(
    "ICE0118", "warning", Level.METADATA, "the extents of a manifest exceed the chunk grid",
    "Chunks beyond the grid are never read. An array that was made smaller looks so, until its "
    "manifests are rewritten.",
)  # fmt: skip
ZARR_METADATA = Rule(
    "ICE0119", "error", Level.METADATA, "the zarr.json of a node is damaged",
    "It is not JSON, has no chunk grid or codecs where an array must, or says another type of "
    "node than the snapshot does.",
)  # fmt: skip
ZARR_SHAPE = Rule(
    "ICE0120", "error", Level.METADATA, "the shape of an array contradicts its zarr.json",
    "Shape, number of chunks or dimension names in the snapshot are not those in zarr.json, so "
    "that readers of the two see different arrays.",
)  # fmt: skip
NODE_UNKNOWN = Rule(
    "ICE0121", "warning", Level.METADATA, "a snapshot has something that this icectl cannot know",
    "A kind of node or a field of a newer version of the format. Use a newer icectl.",
)  # fmt: skip
NODE_COMPONENT_ORDER = Rule(
    "ICE0122", "warning", Level.METADATA, "nodes are in an order that official clients miss",
    "The specification sorts paths by components (/a/b before /a-b), yet every official release "
    "writes and searches them by the bytes of the whole path (/a-b before /a/b), and does not "
    "find some nodes of this snapshot.",
)  # fmt: skip

# Transaction logs.

LOG_MISSING = Rule("ICE0201", "error", Level.METADATA, "a transaction log is missing", _LOG_LOST)
LOG_UNREADABLE = Rule("ICE0202", "error", Level.METADATA, "a transaction log is damaged", _LOG_LOST)
LOG_ID = Rule(
    "ICE0203", "error", Level.METADATA, "a transaction log has the id of another",
    "The id inside is not the file's name. " + _LOG_LOST,
)  # fmt: skip
LOG_ORDER = Rule(
    "ICE0204", "error", Level.METADATA, "a list of a transaction log is out of order or repeats",
    "Nodes are sorted by id, chunks by coordinates, moves by their new path, each once.",
)  # fmt: skip
LOG_TWICE = Rule(
    "ICE0205", "info", Level.METADATA, "a node is in two lists of a transaction log",
    "A node is either new, deleted or updated in one commit. An amended commit lists what it and "
    "the one before it did; diffs may show the node twice.",
)  # fmt: skip
LOG_NOT_EMPTY = Rule(
    "ICE0206", "error", Level.METADATA, "the log of the first snapshot is not empty",
    "The first snapshot changes nothing.",
)  # fmt: skip
LOG_CLAIMS = Rule(
    "ICE0207", "error", Level.METADATA, "a transaction log says what the snapshots do not show",
    "A new or updated node is not there, a deleted one still is, or it is of another type.",
)  # fmt: skip
LOG_OMITS = Rule(
    "ICE0208", "error", Level.METADATA, "a node changed without an entry in the transaction log",
    "The node differs between a snapshot and its parent, and the log says nothing of it: one "
    "of the three files is damaged. Compare them with `icectl diff` and `icectl show`.",
)  # fmt: skip
LOG_CHUNKS = Rule(
    "ICE0209", "error", Level.METADATA, "a transaction log lists chunks that cannot be",
    "The node is no array, or a coordinate has another number of dimensions than the array.",
)  # fmt: skip
LOG_MOVES = Rule(
    "ICE0210", "error", Level.METADATA, "a move in a transaction log is wrong",
    "A moved node is at the old path before and at the new path after, is moved once, with "
    "everything below it, and never onto another node.",
)  # fmt: skip
LOG_INITIAL = Rule(
    "ICE0211", "info", Level.METADATA, "the first snapshot has no transaction log",
    "Writers before spec version 2 wrote none. Nothing needs it.",
)  # fmt: skip
LOG_NO_EFFECT = Rule(
    "ICE0212", "info", Level.METADATA, "a transaction log lists a change without effect",
    "The node is in neither version, or a node listed as deleted is in both. A session that "
    "changed or deleted the node was rebased onto a version without it, or with it at another "
    "path. Nothing is lost.",
)  # fmt: skip
