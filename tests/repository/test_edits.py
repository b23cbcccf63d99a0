from __future__ import annotations

from dataclasses import replace

import pytest

from icectl.errors import ConflictError, RefNotFoundError, RefusedError, UsageError
from icectl.model.ids import INITIAL_SNAPSHOT_ID
from icectl.model.repo import (
    Availability,
    BranchCreatedUpdate,
    BranchDeletedUpdate,
    BranchResetUpdate,
    FeatureFlagChangedUpdate,
    RepoStatusChangedUpdate,
    TagCreatedUpdate,
    TagDeletedUpdate,
)
from icectl.model.values import MetadataItem
from icectl.repository import edits
from tests.failures import raises
from tests.repository.builders import make_info, sid

INFO = make_info({1: None, 2: 1}, branches={"main": 2, "dev": 1}, tags={"v1": 1})


def names(refs):
    return {ref.name: ref.snapshot_id for ref in refs}


def test_create_branch_keeps_names_in_order():
    info, update = edits.create_branch(INFO, "a-first", sid(1))
    assert [ref.name for ref in info.branches] == ["a-first", "dev", "main"]
    assert names(info.branches)["a-first"] == sid(1)
    assert update == BranchCreatedUpdate("a-first")
    assert names(INFO.branches).keys() == {"dev", "main"}


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (lambda: edits.create_branch(INFO, "dev", sid(1)), RefusedError),
        (lambda: edits.create_branch(INFO, "new", sid(9)), RefNotFoundError),
        (lambda: edits.create_branch(INFO, "", sid(1)), UsageError),
        (lambda: edits.reset_branch(INFO, "nope", sid(1)), RefNotFoundError),
        (lambda: edits.reset_branch(INFO, "dev", sid(9)), RefNotFoundError),
        (lambda: edits.reset_branch(INFO, "dev", sid(2), expect=sid(2)), ConflictError),
        (lambda: edits.delete_branch(INFO, "main"), RefusedError),
        (lambda: edits.delete_branch(INFO, "nope"), RefNotFoundError),
        (lambda: edits.delete_branch(INFO, "dev", expect=sid(2)), ConflictError),
        (lambda: edits.create_tag(INFO, "v1", sid(1)), RefusedError),
        (lambda: edits.create_tag(INFO, "v2", sid(9)), RefNotFoundError),
        (lambda: edits.delete_tag(INFO, "v2"), RefNotFoundError),
        (lambda: edits.unset_metadata(INFO, ["nope"]), RefNotFoundError),
    ],
)
def test_refusals(edit, error):
    with pytest.raises(error):
        edit()


def test_reset_and_delete_tell_the_previous_snapshot():
    info, update = edits.reset_branch(INFO, "dev", sid(2), expect=sid(1))
    assert names(info.branches)["dev"] == sid(2)
    assert update == BranchResetUpdate("dev", sid(1))
    info, update = edits.delete_branch(INFO, "dev", expect=sid(1))
    assert names(info.branches) == {"main": sid(2)}
    assert update == BranchDeletedUpdate("dev", sid(1))


def test_reset_to_the_same_place_is_no_change():
    assert edits.reset_branch(INFO, "dev", sid(1))[0] == INFO


def test_a_deleted_tag_is_never_used_again():
    info, update = edits.delete_tag(INFO, "v1")
    assert update == TagDeletedUpdate("v1", sid(1))
    assert info.tags == () and info.deleted_tags == ("v1",)
    with pytest.raises(RefusedError, match="v1"):
        edits.create_tag(info, "v1", sid(1))
    assert edits.create_tag(info, "v2", sid(1))[1] == TagCreatedUpdate("v2")


def test_flags_forbid():
    info, update = edits.set_flag(INFO, edits.CREATE_TAG_FLAG, False)
    assert update == FeatureFlagChangedUpdate(4, new_value=False, is_set=True)
    with raises(RefusedError, remedy="enable-flag", flag="create_tag"):
        edits.create_tag(info, "v2", sid(1))
    assert edits.delete_tag(info, "v1")
    info, update = edits.set_flag(info, edits.CREATE_TAG_FLAG, None)
    assert update == FeatureFlagChangedUpdate(4, new_value=False, is_set=False)
    assert edits.create_tag(info, "v2", sid(1))
    info, _ = edits.set_flag(info, edits.DELETE_TAG_FLAG, False)
    with raises(RefusedError, remedy="enable-flag", flag="delete_tag"):
        edits.delete_tag(info, "v1")
    info, _ = edits.set_flag(info, edits.DELETE_TAG_FLAG, True)
    assert (info.enabled_feature_flags, info.disabled_feature_flags) == ((5,), ())


def test_unknown_flags_are_kept():
    info = replace(INFO, enabled_feature_flags=(900,), disabled_feature_flags=(3, 901))
    edited, _ = edits.set_flag(info, 4, False)
    assert edited.enabled_feature_flags == (900,)
    assert edited.disabled_feature_flags == (3, 4, 901)


def test_status():
    info, update = edits.set_status(INFO, Availability.READ_ONLY, "backup", 77)
    assert info.status.set_at == 77
    assert update == RepoStatusChangedUpdate(info.status)
    assert edits.set_status(info, Availability.READ_ONLY, "backup", 78)[0] == info
    assert edits.set_status(info, Availability.READ_ONLY, "other", 78)[0] != info


def test_metadata_merges_and_goes():
    info, _ = edits.set_metadata(INFO, [MetadataItem("b", b"1"), MetadataItem("a", b"2")])
    info, _ = edits.set_metadata(info, [MetadataItem("b", b"3")])
    assert info.metadata == (MetadataItem("a", b"2"), MetadataItem("b", b"3"))
    info, _ = edits.unset_metadata(info, ["b"])
    assert info.metadata == (MetadataItem("a", b"2"),)


def test_a_reset_to_the_initial_snapshot_is_possible():
    info, _ = edits.reset_branch(INFO, "main", INITIAL_SNAPSHOT_ID)
    assert names(info.branches)["main"] == INITIAL_SNAPSHOT_ID
