"""The rules about manifests, chunks and the sources of virtual chunks."""

from __future__ import annotations

from icectl.ops.validate.rule import Level, Rule

_MANIFEST_LOST = (
    "Chunks that the manifest refers to cannot be found, and gc refuses to run. Restore the "
    "file from a copy of the bucket, or reset the branches that reach it to a sound version."
)

# Manifests.

MANIFEST_MISSING = Rule(
    "ICE0301", "error", Level.METADATA, "a manifest file is missing", _MANIFEST_LOST
)
MANIFEST_SIZE = Rule(
    "ICE0302", "error", Level.METADATA, "a manifest file has another size than its snapshots say",
    "The file was cut off or replaced. " + _MANIFEST_LOST,
)  # fmt: skip
MANIFEST_UNREADABLE = Rule(
    "ICE0303", "error", Level.MANIFESTS, "a manifest file is damaged", _MANIFEST_LOST
)
MANIFEST_ID = Rule(
    "ICE0304", "error", Level.MANIFESTS, "a manifest file has the id of another",
    "The id inside is not the file's name. " + _MANIFEST_LOST,
)  # fmt: skip
MANIFEST_COUNT = Rule(
    "ICE0305", "error", Level.MANIFESTS, "a manifest has another count than its snapshots say",
    "References were lost, or one of the files is damaged. " + _MANIFEST_LOST,
)  # fmt: skip
MANIFEST_ARRAYS = Rule(
    "ICE0306", "error", Level.MANIFESTS, "the arrays of a manifest are out of order or repeat",
    "They are sorted by node id, each once; readers search them by halves.",
)  # fmt: skip
REFERENCE_ORDER = Rule(
    "ICE0307", "error", Level.MANIFESTS, "chunk references are out of order",
    "They are sorted by coordinates; readers search them by halves and read the fill value "
    "where they do not find one.",
)  # fmt: skip
REFERENCE_TWICE = Rule(
    "ICE0308", "error", Level.MANIFESTS, "two references for one chunk",
    "Which one is read depends on the reader.",
)  # fmt: skip
REFERENCE_KIND = Rule(
    "ICE0309", "error", Level.MANIFESTS, "a reference is not of exactly one kind",
    "A reference has a chunk id, a location or its data, and only one of them.",
)  # fmt: skip
REFERENCE_EXTENTS = Rule(
    "ICE0310", "error", Level.MANIFESTS, "a reference is outside the extents of its manifest",
    "Readers choose the manifest by its extents, and never find this reference.",
)  # fmt: skip
REFERENCE_DIMENSIONS = Rule(
    "ICE0311", "error", Level.MANIFESTS, "the coordinates of a reference do not fit the array",
    "They have another number of dimensions than the array has.",
)  # fmt: skip
REFERENCE_EMPTY = Rule(
    "ICE0312", "warning", Level.MANIFESTS, "a reference of zero length",
    "No codec decodes an empty chunk; the reader gets an error where a missing chunk would read "
    "as the fill value.",
)  # fmt: skip
REFERENCE_LOCATION = Rule(
    "ICE0313", "error", Level.MANIFESTS, "the location of a virtual reference is damaged",
    "It does not decompress, or is not an absolute URL.",
)  # fmt: skip
REFERENCE_CHECKSUMS = Rule(
    "ICE0314", "warning", Level.MANIFESTS, "a virtual reference has two checksums",
    "An etag and a time are stored; the specification allows one.",
)  # fmt: skip
REFERENCE_SHARED = Rule(
    "ICE0315", "info", Level.MANIFESTS, "two references name the same bytes of one chunk file",
    "Writers give each chunk a file of its own, yet moving chunks about in an array (the official "
    "reindex_array) leaves two references to one. A damaged reference may look so, too.",
)  # fmt: skip
REFERENCE_UNLOGGED = Rule(
    "ICE0316", "error", Level.MANIFESTS, "a chunk changed without an entry in the transaction log",
    "The reference differs between a snapshot and its parent, and the log does not list the "
    "chunk: one of the files is damaged.",
)  # fmt: skip
ARRAY_UNREFERENCED = Rule(
    "ICE0317", "warning", Level.MANIFESTS, "a manifest has nothing for an array that refers to it",
    "The array's reference to the manifest is useless, or the manifest lost its part.",
)  # fmt: skip

# Chunks.

CHUNK_MISSING = Rule(
    "ICE0401", "error", Level.CHUNKS, "a chunk file is missing",
    "Reading that part of the array fails. Write the chunk again in a new commit, or restore the "
    "file from a copy of the bucket. When the loss is understood, `--known-missing FILE` lists "
    "it for gc.",
)  # fmt: skip
CHUNK_SHORT = Rule(
    "ICE0402", "error", Level.CHUNKS, "a chunk file is shorter than its references say",
    "The file was cut off. Reading that part of the array fails.",
)  # fmt: skip
CHUNK_LONG = Rule(
    "ICE0403", "warning", Level.CHUNKS, "a chunk file has bytes that no reference needs",
    "A file may hold several chunks, yet official writers use one for each: the length in the "
    "reference, or the file, may be damaged.",
)  # fmt: skip
ORPHANS = Rule(
    "ICE0404", "info", Level.CHUNKS, "objects that no version needs",
    "Left by expired versions, abandoned sessions, or a writer that is at work just now. "
    "`icectl gc` deletes them.",
)  # fmt: skip
FOREIGN = Rule(
    "ICE0405", "info", Level.CHUNKS, "a file that is no object of the repository",
    "Its name is no id. icectl and official clients ignore it and never delete it.",
)  # fmt: skip
CHUNK_UNREADABLE = Rule(
    "ICE0501", "error", Level.DATA, "the bytes of a chunk cannot be read",
    "The storage failed to return them, or returned fewer than the reference says.",
)  # fmt: skip
CHUNK_UNDECODABLE = Rule(
    "ICE0502", "error", Level.DATA, "a chunk does not decode",
    "The codecs of its zarr.json reject the bytes (with --decode): the chunk or the zarr.json "
    "is damaged.",
)  # fmt: skip
CODECS_UNKNOWN = Rule(
    "ICE0503", "warning", Level.DATA, "chunks could not be decoded for want of a codec",
    "The codecs of the array's zarr.json are not installed here, or zarr-python does not accept "
    "that zarr.json.",
)  # fmt: skip
CHUNK_TOO_LARGE = Rule(
    "ICE0504", "warning", Level.DATA, "a chunk was not decoded, since it is too large",
    "It decodes to far more than it takes in the storage, by more than the limit CHUNK_RATIO. "
    "Such a chunk is valid, but decoding it could take all memory; read it with zarr.",
)  # fmt: skip

# Sources of virtual chunks.

SOURCE_MISSING = Rule(
    "ICE0601", "error", None, "the source of virtual chunks is missing",
    "The file that the references point into does not exist. Reading these chunks fails.",
)  # fmt: skip
SOURCE_SHORT = Rule(
    "ICE0602", "error", None, "the source of virtual chunks is shorter than references say",
    "The file changed since the references were made. Reading these chunks fails.",
)  # fmt: skip
SOURCE_CHANGED = Rule(
    "ICE0603", "error", None, "the source of virtual chunks changed",
    "Its etag is not the stored one, or it was modified after the stored time: readers refuse "
    "these chunks. Make the references again.",
)  # fmt: skip
SOURCE_CONTAINER = Rule(
    "ICE0604", "warning", None, "no container covers the source of virtual chunks",
    "The repository's configuration has no virtual chunk container whose prefix is the beginning "
    "of the location, or whose name is that in a vcc:// location, so that readers refuse these "
    "chunks.",
)  # fmt: skip
SOURCE_UNCHECKED = Rule(
    "ICE0605", "warning", None, "the source of virtual chunks could not be looked at",
    "No storage is known for the location, or the storage refused. Whether the source is there "
    "is not known.",
)  # fmt: skip
