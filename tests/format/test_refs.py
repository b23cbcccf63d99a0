"""Ref files, their names in every generation, and config.yaml."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icectl.errors import FormatError
from icectl.format.config import decode_config_yaml, encode_config_yaml
from icectl.format.refs import (
    decode_ref,
    decode_ref_data,
    encode_ref,
    interpret_ref_names,
)
from icectl.model.ids import SnapshotId, decode_base32, encode_base32
from tests.format.mutations import mutations


@given(st.binary(max_size=40))
def test_base32_round_trip(data: bytes) -> None:
    assert decode_base32(encode_base32(data)) == data


def test_every_ref_of_the_fixtures(shared_fixtures: Path) -> None:
    expected = {"main", "my-branch"}, {"it works!", "it also works!"}
    for name in ("test-repo-alpha8", "test-repo-0.1.0", "test-repo-v1"):
        root = shared_fixtures / name
        paths = [str(path.relative_to(root)) for path in root.glob("refs/*/*")]
        refs = interpret_ref_names(paths)
        assert (set(refs.branches), set(refs.tags)) == expected
        assert refs.unknown == ()
        assert refs.deleted_tags == (set() if name == "test-repo-alpha8" else {"deleted"})
        for path in (*refs.branches.values(), *refs.tags.values()):
            data = (root / path).read_bytes()
            snapshot = decode_ref(data)
            assert (root / "snapshots" / str(snapshot)).is_file()
            assert encode_ref(snapshot) == data
        # Names count down, so the newest file of a branch sorts first.
        if name != "test-repo-v1":
            newest = min(path for path in paths if path.startswith("refs/branch.main/"))
            assert refs.branches["main"] == newest


def test_ref_names_of_the_earliest_layout() -> None:
    refs = interpret_ref_names(
        ["r/main/ZZZZZZZZ.json", "r/main/ZZZZZZZY.json", "r/v1.json", "r/odd", "r/main/x.json"]
    )
    assert refs.branches == {"main": "r/main/ZZZZZZZY.json"}
    assert refs.tags == {"v1": "r/v1.json"}
    assert refs.unknown == ("r/main/x.json", "r/odd")


def test_ref_names_that_are_odd() -> None:
    refs = interpret_ref_names(
        [
            "refs/branch.a.b/ref.json",
            "refs/branch.both/ZZZZZZZA.json",
            "refs/branch.both/ref.json",
            "refs/tag.gone/ref.json",
            "refs/tag.gone/ref.json.deleted",
            "refs/tag.never/ref.json.deleted",
            "refs/branch./ref.json",
            "refs/other.x/ref.json",
            "refs/ref.json",
            "elsewhere/branch.x/ref.json",
        ]
    )
    assert refs.branches == {
        "a.b": "refs/branch.a.b/ref.json",
        "both": "refs/branch.both/ref.json",
    }
    assert refs.tags == {}
    assert refs.deleted_tags == {"gone", "never"}
    assert len(refs.unknown) == 4


def test_ref_of_the_earliest_generation() -> None:
    document = {
        "snapshot": list(range(16)),
        "timestamp": "2024-09-01T12:00:00Z",
        "properties": {"author": "x"},
    }
    ref = decode_ref_data(json.dumps(document).encode())
    assert ref.snapshot == SnapshotId(bytes(range(16)))
    assert (ref.timestamp, ref.properties) == (document["timestamp"], document["properties"])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"snapshot":1}',
        b'{"snapshot":"ABC"}',
        b'{"snapshot":"1CECHNKREP0F1RSTCMT1"}',  # appended bits are not zero
        b'{"snapshot":"1cechnkrep0f1rstcmt0"}',
        b'{"snapshot":[1,2,3]}',
        b'{"snapshot":[true,2,3,4,5,6,7,8,9,10,11,12]}',
        b'{"snapshot":[256,2,3,4,5,6,7,8,9,10,11,12]}',
        b'{"snapshot":"1CECHNKREP0F1RSTCMT0","snapshot":"1CECHNKREP0F1RSTCMT0"}',
        b'{"snapshot":"1CECHNKREP0F1RSTCMT0","properties":NaN}',
        b'{"snapshot":"1CECHNKREP0F1RSTCMT0","timestamp":1}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"1" * 10_000,
        b" " * (2 << 20),
    ],
)
def test_damaged_refs_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_ref(data)


def test_mutations_of_a_ref() -> None:
    right = SnapshotId.parse("1CECHNKREP0F1RSTCMT0")
    assert decode_ref(encode_ref(right)) == right
    for damaged in mutations(encode_ref(right), 3000):
        try:
            assert len(decode_ref(damaged)) in (12, 16)
        except FormatError:
            continue


def test_config_of_every_fixture(shared_fixtures: Path) -> None:
    stores = set()
    for file in sorted(shared_fixtures.glob("*/config.yaml")):
        config = decode_config_yaml(file.read_bytes())
        assert config["inline_chunk_threshold_bytes"] == 12
        containers = config["virtual_chunk_containers"]
        assert isinstance(containers, dict)
        assert set(containers) == {"s3", "az", "tigris", "gcs", "file"}
        assert containers["az"]["url_prefix"] == "az"
        stores |= {next(iter(container["store"])) for container in containers.values()}
        assert decode_config_yaml(encode_config_yaml(config)) == config
    assert {"s3_compatible", "S3Compatible", "local_file_system", "Azure"} <= stores


def test_config_scalars_follow_yaml_1_2() -> None:
    text = (
        "a: yes\nb: 010\nc: 2024-01-01\nd: 1:30\ne: true\nf: ~\ng: -7\nh: 1e3\ni: 'null'\nj: .inf\n"
    )
    assert decode_config_yaml(text.encode()) == {
        "a": "yes",
        "b": "010",
        "c": "2024-01-01",
        "d": "1:30",
        "e": True,
        "f": None,
        "g": -7,
        "h": 1000.0,
        "i": "null",
        "j": float("inf"),
    }
    assert decode_config_yaml(b"") == {}


configs = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
        | st.fixed_dictionaries({"store": st.fixed_dictionaries({"s3": inner})})
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.text(st.characters(codec="ascii")), configs, max_size=4))
def test_config_round_trip(config: dict[str, object]) -> None:
    try:
        encoded = encode_config_yaml(config)
    except FormatError as error:
        assert "variant" in str(error)
    else:
        assert decode_config_yaml(encoded) == config


@pytest.mark.parametrize(
    "data",
    [
        b"- a list",
        b"text",
        b"a: 1\na: 2",
        b"1: 2",
        b"a: [1, 2",
        b"a: !!python/object:os.system x",
        b"a: !!timestamp x",
        b"x: &x [1]\ny: *x",
        b"a: &a [l]\nb: &b [*a,*a]\nc: &c [*b,*b]",
        b"a: {<<: *b}",
        b"---\na: 1\n---\nb: 2",
        b"a: \xff",
        b"a: \x00",
        b"[" * 50_000,
        b"a: " + b"[" * 100,
        b"a: " + b"9" * 10_000,
        b"\n" + b" " * (1 << 20),
    ],
)
def test_damaged_configs_are_refused(data: bytes) -> None:
    started = time.process_time()
    with pytest.raises(FormatError):
        decode_config_yaml(data)
    assert time.process_time() - started < 10


def test_mutations_of_a_config(shared_fixtures: Path) -> None:
    data = (shared_fixtures / "test-repo-v1" / "config.yaml").read_bytes()
    for damaged in mutations(data, 300):
        try:
            config = decode_config_yaml(damaged)
        except FormatError:
            continue
        assert isinstance(config, dict)


def test_official_package_reads_our_config_and_refs(tmp_path: Path) -> None:
    ic = pytest.importorskip("icechunk")
    condition = ic.ManifestPreloadCondition
    config = ic.RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 7
    config.manifest = ic.ManifestConfig(
        preload=ic.ManifestPreloadConfig(
            max_total_refs=5,
            preload_if=condition.or_conditions(
                [
                    condition.name_matches("a.*"),
                    condition.and_conditions([condition.num_refs(1, 10), condition.true()]),
                ]
            ),
        ),
        splitting=ic.ManifestSplittingConfig.from_dict(
            {
                ic.ManifestSplitCondition.AnyArray(): {
                    ic.ManifestSplitDimCondition.DimensionName("t"): 10,
                    ic.ManifestSplitDimCondition.Axis(1): 5,
                }
            }
        ),
    )
    for prefix, store in (
        ("s3://b/p/", ic.s3_store(region="us-east-1")),
        ("file:///x/", ic.local_filesystem_store("/x")),
        ("gs://x/", ic.gcs_store()),
    ):
        config.set_virtual_chunk_container(ic.VirtualChunkContainer(prefix, store))
    storage = ic.local_filesystem_storage(str(tmp_path))
    repository = ic.Repository.create(storage, config=config, spec_version=1)
    repository.save_config()
    before = repr(ic.Repository.open(storage).config)

    file = tmp_path / "config.yaml"
    decoded = decode_config_yaml(file.read_bytes())
    plain = json.loads(json.dumps(decoded))
    assert plain["manifest"]["preload"]["preload_if"]["or"][1]["and"][0]["num_refs"] == {
        "from": {"Included": 1},
        "to": {"Excluded": 10},
    }
    assert encode_config_yaml(plain) == encode_config_yaml(decoded)
    file.write_bytes(encode_config_yaml({**plain, "inline_chunk_threshold_bytes": 8}))
    after = repr(ic.Repository.open(storage).config)
    assert sorted(after.splitlines()) == sorted(
        before.replace("threshold_bytes=7", "threshold_bytes=8").splitlines()
    )

    main = tmp_path / "refs" / "branch.main" / "ref.json"
    snapshot = decode_ref(main.read_bytes())
    assert encode_ref(snapshot) == main.read_bytes()
    other = tmp_path / "refs" / "branch.ours" / "ref.json"
    other.parent.mkdir()
    other.write_bytes(encode_ref(snapshot))
    assert ic.Repository.open(storage).lookup_branch("ours") == str(snapshot)
