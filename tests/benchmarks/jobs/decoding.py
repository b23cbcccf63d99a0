"""One manifest of 1,000,000 references, decoded with all columns.

Measured inside the process, without imports, since the target is about the decoder. Access
field by field through the flatbuffers runtime would take minutes for all references: 20,000
of them, evenly spread, are read, and the time is extrapolated to all.
"""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.harness import Command, Comparison, Fixed, Scale, dataset, job, python

REFERENCES = 1_000_000
DECODE = "from tests.benchmarks import decode; decode.main()"


def manifest(builder: str, scale: Scale) -> Path:
    repository = dataset(builder, scale.of(REFERENCES))
    return max((repository / "manifests").iterdir(), key=lambda path: path.stat().st_size)


def decoding(how: str, path: Path) -> Command:
    return python(DECODE, how, path, measures_inside=True)


def register(kind: str, builder: str) -> None:
    @job(f"decode {kind} refs, zstd", target=4)
    def beside_zstd(scale: Scale) -> Comparison:
        path = manifest(builder, scale)
        return Comparison(decoding("zstd", path), decoding("ours", path), "zstd alone")

    @job(f"decode {kind} refs, fields", target=1 / 80)
    def beside_field_access(scale: Scale) -> Comparison:
        path = manifest(builder, scale)
        return Comparison(
            decoding("fields", path),
            decoding("ours", path),
            "flatbuffers",
            "theirs is extrapolated from a sample of 20,000 references",
        )

    @job(f"decode {kind} refs, memory", memory_target=4)
    def beside_payload(scale: Scale) -> Comparison:
        path = manifest(builder, scale)
        return Comparison(
            Fixed(payload_megabytes(path)),
            decoding("ours", path),
            "payload",
            "theirs is the size of the decompressed payload",
        )


def payload_megabytes(path: Path) -> float:
    """Counted by pieces, so that this process stays small."""
    import zstandard

    with path.open("rb") as file:
        file.seek(39)
        with zstandard.ZstdDecompressor().stream_reader(file) as pieces:
            return sum(map(len, iter(lambda: pieces.read(2**16), b""))) / 2**20


register("virtual", "many_virtual_refs")
register("native", "synthetic_native_refs")
