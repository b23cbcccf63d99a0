"""The repo file compared with the specification and with its previous state. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise

from icectl.checks import rules
from icectl.checks.order import first_disorder
from icectl.checks.problem import UNREADABLE, Problem, unreadable
from icectl.checks.rules import Rule
from icectl.errors import FormatError
from icectl.format.envelope import decode_header
from icectl.format.repo import decode_raw_repo, repo_info
from icectl.format.schema import RawRepo
from icectl.format.values import decode_flexbuffers, decode_metadata
from icectl.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId
from icectl.model.repo import (
    FEATURE_FLAGS,
    Availability,
    ExpirationRanUpdate,
    GCRanUpdate,
    RepoInfo,
    UnknownUpdate,
    Update,
    ids_of,
    parents_of,
    times_of,
)
from icectl.model.values import MetadataItem
from icectl.repository.backups import made_at
from icectl.repository.clock import format_duration, is_ahead
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.history import find_cycles, state_of
from icectl.repository.layout import STANDARD
from icectl.repository.ops_log import REPO_PATH
from icectl.repository.transitions import find_problem


def check_repo(data: bytes) -> tuple[RepoInfo | None, list[Problem]]:
    """The state without refs and parents that lead nowhere, and all problems of the file."""
    try:
        raw, unknown_fields = decode_raw_repo(data)
        header = decode_header(data)
    except UNREADABLE as error:
        return None, [unreadable(rules.REPO_UNREADABLE, REPO_PATH, error)]
    assert header is not None
    problems = [
        *_check_version(raw, header[0].spec_version),
        *check_repo_order(
            {
                **sorted_lists(raw),
                "deleted tags": [name.encode() for name in raw.deleted_tags],
                "enabled flags": _flag_keys(raw.enabled_feature_flags),
                "disabled flags": _flag_keys(raw.disabled_feature_flags),
            }
        ),
        *_check_targets(raw),
        *check_main({ref.name for ref in raw.branches}),
        *_check_deleted_tags(raw),
        *_check_flags(raw),
        *_check_pruned_logs(raw),
        *_check_values(raw),
        *check_ops_log_order(raw.latest_updates),
    ]
    problems += (
        _problem(rules.STATUS_UNKNOWN, f"unknown field {field.slot} of {field.table}")
        for field in unknown_fields
    )
    try:
        return repo_info(_without_bad_targets(raw), unknown_fields), problems
    except FormatError as error:
        return None, [*problems, unreadable(rules.REPO_UNREADABLE, REPO_PATH, error)]


def _problem(rule: Rule, detail: str) -> Problem:
    return Problem(rule, REPO_PATH, detail)


def _check_version(raw: RawRepo, header_version: int) -> Iterator[Problem]:
    if raw.spec_version != header_version:
        yield _problem(
            rules.REPO_SPEC_VERSION,
            f"spec version {header_version} in the header, {raw.spec_version} in the content",
        )
    if raw.status.availability not in Availability.__members__.values():
        yield _problem(rules.STATUS_UNKNOWN, f"the status has the number {raw.status.availability}")
    for update in raw.latest_updates:
        if isinstance(update.update_type, UnknownUpdate):
            code = update.update_type.type_code
            yield _problem(
                rules.STATUS_UNKNOWN, f"the ops log has an operation with the number {code}"
            )


def sorted_lists(repo: RawRepo | RepoInfo) -> dict[str, Sequence[bytes]]:
    """The lists that decide what can be reached, for `check_repo_order`."""
    return {
        "branches": [ref.name.encode() for ref in repo.branches],
        "tags": [ref.name.encode() for ref in repo.tags],
        "snapshots": ids_of(repo.snapshots),
    }


def _flag_keys(flags: Iterable[int] | None) -> list[bytes]:
    return [flag.to_bytes(2, "big") for flag in flags or ()]


def check_repo_order(lists: Mapping[str, Sequence[bytes]]) -> Iterator[Problem]:
    for name, keys in lists.items():
        number = first_disorder(keys)
        if number is not None:
            is_repeat = keys[number] == keys[number - 1]
            what = "repeats the previous one" if is_repeat else "is out of order"
            yield _problem(rules.REPO_ORDER, f"{name}: number {number + 1} {what}")


def _check_targets(raw: RawRepo) -> Iterator[Problem]:
    count = len(raw.snapshots)
    for kind, refs in (("branch", raw.branches), ("tag", raw.tags)):
        for ref in refs:
            if ref.snapshot_index >= count:
                yield _problem(
                    rules.REF_TARGET,
                    f"the {kind} {ref.name} points to snapshot number {ref.snapshot_index} "
                    f"of {count}",
                )
    roots: list[SnapshotId] = []
    looping = _on_loops(raw)
    for number, entry in enumerate(raw.snapshots):
        if entry.parent_offset == -1:
            roots.append(entry.id)
        elif not 0 <= entry.parent_offset < count:
            yield _problem(
                rules.PARENT_TARGET,
                f"the parent of {entry.id} is snapshot number {entry.parent_offset} of {count}",
            )
        elif number in looping:
            yield _own_ancestor(entry.id)
    yield from _check_roots(roots)
    if len(roots) == 1 and INITIAL_SNAPSHOT_ID in {one.id for one in raw.snapshots} - set(roots):
        yield _problem(rules.ROOT_SNAPSHOT, f"{INITIAL_SNAPSHOT_ID} has a parent")


def _own_ancestor(snapshot_id: SnapshotId) -> Problem:
    return _problem(rules.ANCESTRY_LOOP, f"{snapshot_id} is its own ancestor")


def _check_roots(roots: Sequence[SnapshotId]) -> Iterator[Problem]:
    if len(roots) != 1:
        names = ", ".join(map(str, roots[:3])) or "none"
        yield _problem(rules.ROOT_SNAPSHOT, f"{len(roots)} snapshots have no parent: {names}")


def check_ancestry(info: RepoInfo) -> Iterator[Problem]:
    """In a repo file that decodes, every line of history begins with the one initial snapshot."""
    parents = parents_of(info.snapshots)
    yield from _check_roots([id_ for id_, parent in parents.items() if parent is None])
    for cycle in find_cycles(parents):
        yield _own_ancestor(cycle[0])


def _on_loops(raw: RawRepo) -> set[int]:
    """The numbers of the snapshots that are their own ancestors."""
    done: set[int] = set()
    looping: set[int] = set()
    for start in range(len(raw.snapshots)):
        walk: dict[int, None] = {}
        number = start
        while 0 <= number < len(raw.snapshots) and number not in done and number not in walk:
            walk[number] = None
            number = raw.snapshots[number].parent_offset
        if number in walk:
            steps = list(walk)
            looping.update(steps[steps.index(number) :])
        done.update(walk)
    return looping


def check_main(branches: Collection[str], object_: str = REPO_PATH) -> Iterator[Problem]:
    """Nobody can delete the branch main: if it does not exist, its file or entry was lost."""
    if DEFAULT_BRANCH not in branches:
        detail = f"branches: {', '.join(sorted(branches)[:3]) or 'none'}"
        yield Problem(rules.MAIN_MISSING, object_, detail)


def check_backup_names(info: RepoInfo) -> Iterator[Problem]:
    """Writers name copies of the repo file by the time; a flipped bit breaks that pattern."""
    names = [info.repo_before_updates, *(update.backup_path for update in info.latest_updates)]
    for name in names:
        if name is not None and made_at(name) is None:
            yield invalid_backup_name(name)


def invalid_backup_name(name: str) -> Problem:
    return _problem(rules.BACKUP_UNREADABLE, f"the ops log names a copy {name!r}, an invalid name")


def _check_deleted_tags(raw: RawRepo) -> Iterator[Problem]:
    for name in sorted({ref.name for ref in raw.tags} & set(raw.deleted_tags)):
        yield _problem(rules.DELETED_TAG_EXISTS, f"the tag {name}")


def _check_flags(raw: RawRepo) -> Iterator[Problem]:
    enabled, disabled = raw.enabled_feature_flags or (), raw.disabled_feature_flags or ()
    for flag in sorted(set(enabled) & set(disabled)):
        yield _problem(rules.FLAG_TWICE, f"the flag {FEATURE_FLAGS.get(flag, flag)}")
    for flag in sorted({*enabled, *disabled} - FEATURE_FLAGS.keys()):
        yield _problem(rules.STATUS_UNKNOWN, f"the feature flag with the number {flag}")


def _check_pruned_logs(raw: RawRepo) -> Iterator[Problem]:
    for entry in raw.snapshots:
        logs: tuple[SnapshotId, ...] | None = entry.pruned_ancestor_tx_logs
        if logs is None:
            continue
        if not logs:
            yield _problem(rules.PRUNED_LOGS, f"{entry.id} has an empty list")
        elif len(set(logs)) < len(logs) or entry.id in logs:
            yield _problem(rules.PRUNED_LOGS, f"{entry.id} lists a log twice, or its own log")


def _check_values(raw: RawRepo) -> Iterator[Problem]:
    try:
        config = decode_flexbuffers(raw.config) if raw.config else {}
        if not isinstance(config, dict):
            yield _problem(rules.REPO_VALUE, "the configuration is not a mapping")
    except FormatError as error:
        yield _problem(rules.REPO_VALUE, f"configuration: {error.reason}")
    owners: list[tuple[str, object]] = [("metadata of the repository", raw.metadata)]
    owners += ((f"metadata of {entry.id}", entry.metadata) for entry in raw.snapshots)
    for owner, items in owners:
        try:
            decode_metadata(items, 2)  # type: ignore[arg-type]
        except FormatError as error:
            yield _problem(rules.REPO_VALUE, f"{owner}: {error.reason}")


def check_ops_log_order(updates: Sequence[Update], object_: str = REPO_PATH) -> Iterator[Problem]:
    if updates and updates[0].backup_path is not None and object_ == REPO_PATH:
        yield Problem(
            rules.NEWEST_HAS_BACKUP, object_, f"the copy is overwritten/{updates[0].backup_path}"
        )
    for number, (newer, older) in enumerate(pairwise(updates), 2):
        if newer.updated_at <= older.updated_at:
            yield Problem(
                rules.OPS_LOG_ORDER,
                object_,
                f"entry {number} of the ops log is not older than the previous one",
            )
            return


def check_times(info: RepoInfo, now: int) -> Iterator[Problem]:
    """The newest operation and the tips of branches are not ahead of the storage's clock."""
    newest = info.latest_updates[0].updated_at if info.latest_updates else now
    if is_ahead(newest, now):
        ahead = format_duration(newest - now)
        yield _problem(rules.FUTURE_TIME, f"the newest operation is {ahead} ahead")
    flushed = times_of(info.snapshots)
    tips: dict[SnapshotId, list[str]] = defaultdict(list)
    for ref in info.branches:
        tips[ref.snapshot_id].append(ref.name)
    for tip, names in tips.items():
        if is_ahead(flushed[tip], now):
            ahead = format_duration(flushed[tip] - now)
            detail = f"the tip of {', '.join(names)} is {ahead} ahead"
            yield Problem(rules.FUTURE_TIME, STANDARD.snapshot(tip), detail)


def _without_bad_targets(raw: RawRepo) -> RawRepo:
    """Without refs and parents that lead nowhere, which were already reported."""
    count = len(raw.snapshots)
    looping = _on_loops(raw)

    def good(refs: Iterable[object]) -> tuple[object, ...]:
        return tuple(ref for ref in refs if ref.snapshot_index < count)  # type: ignore[attr-defined]

    return raw._replace(
        tags=good(raw.tags),
        branches=good(raw.branches),
        snapshots=tuple(
            entry
            if 0 <= entry.parent_offset < count and number not in looping
            else entry._replace(parent_offset=-1)
            for number, entry in enumerate(raw.snapshots)
        ),
    )


_MAY_CHANGE = {
    "config_changed": {"config"},
    "metadata_changed": {"metadata"},
    "tag_deleted": {"deleted_tags"},
    "expiration_ran": {"deleted_tags"},
    "feature_flag_changed": {"enabled_feature_flags", "disabled_feature_flags"},
}
"""Other fields that an operation may change; refs and snapshots are compared one by one."""
_NOT_COMPARED = {
    "tags",
    "branches",
    "snapshots",
    # Change with every update.
    "latest_updates",
    "repo_before_updates",
    # Official writers may change it without an entry in the ops log.
    "status",
}


def check_step(before: RepoInfo, after: RepoInfo) -> Iterator[Problem]:
    """Whether the newest operation of `after` explains how it differs from `before`."""
    if not after.latest_updates:
        return
    update = after.latest_updates[0].update_type
    if isinstance(update, UnknownUpdate):
        return
    problem = find_problem(update, state_of(before), state_of(after))
    if problem is not None:
        yield _problem(rules.STATE_UNEXPLAINED, problem)
    may_change = _MAY_CHANGE.get(update.kind, set())
    for field in fields(RepoInfo):
        if field.name in _NOT_COMPARED:
            continue
        if field.name not in may_change and _differs(before, after, field.name):
            yield _problem(
                rules.STATE_UNEXPLAINED,
                f"{field.name} changed, but the newest operation is {update.kind}",
            )
    yield from _check_infos(before, after)
    yield from _check_same_log(before, after)


def _differs(before: RepoInfo, after: RepoInfo, name: str) -> bool:
    # An absent list and an empty one mean the same.
    old, new = getattr(before, name) or None, getattr(after, name) or None
    return old != new and not (name == "metadata" and _is_same_metadata(old or (), new or ()))


def _is_same_metadata(old: Sequence[MetadataItem], new: Sequence[MetadataItem]) -> bool:
    """Writers re-encode existing values, and a value has several encodings."""
    try:
        return decode_metadata(old, 2) == decode_metadata(new, 2)
    except FormatError:
        return False


def _check_infos(before: RepoInfo, after: RepoInfo) -> Iterator[Problem]:
    moving = isinstance(after.latest_updates[0].update_type, ExpirationRanUpdate | GCRanUpdate)
    known = {info.id: info for info in before.snapshots}
    for info in after.snapshots:
        old = known.get(info.id)
        if old is None:
            continue
        if moving:
            old = replace(
                old,
                parent_id=info.parent_id,
                pruned_ancestor_tx_logs=info.pruned_ancestor_tx_logs,
            )
        if _is_same_metadata(old.metadata or (), info.metadata or ()):
            old = replace(old, metadata=info.metadata)
        if old != info:
            yield _problem(rules.STATE_UNEXPLAINED, f"the entry of the snapshot {info.id} changed")


def _check_same_log(before: RepoInfo, after: RepoInfo) -> Iterator[Problem]:
    """Older entries are unchanged, except that the first gets a backup and the last may go."""
    older = [replace(update, backup_path=None) for update in after.latest_updates[1:]]
    known = [replace(update, backup_path=None) for update in before.latest_updates]
    if older != known[: len(older)]:
        yield _problem(rules.STATE_UNEXPLAINED, "older entries of the ops log changed")
