"""Plan an expiration: which snapshots and refs go, which stay, and why.

A cutoff alone is the official expiration, exactly: in V2 every snapshot of the repository is
considered and a kept one continues at its root; in V1 each ref is taken on its own, tags
first, and the oldest snapshot that it keeps is joined to the root. With rules, a kept
snapshot continues at its nearest kept ancestor, and unreachable snapshots are left to gc
unless a cutoff releases them.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from icectl.checks.listing import missing
from icectl.checks.problem import error_of, raise_first
from icectl.checks.repo import check_main
from icectl.checks.snapshot import check_snapshot_id
from icectl.errors import FormatError, ObjectNotFoundError, RefusedError, Remedy, StorageError
from icectl.format.snapshot import decode_in_either_form
from icectl.model.ids import SnapshotId
from icectl.ops.expire.policy import Policy, apply_rules, matches
from icectl.pipeline.progress import Progress
from icectl.repository.edits import DEFAULT_BRANCH
from icectl.repository.history import State, find_nearest, walk
from icectl.repository.repository import Repository

logger = logging.getLogger(__name__)

TIPS_IN_FLIGHT = 64


@dataclass(frozen=True, slots=True)
class ExpirationPlan:
    released: frozenset[SnapshotId]
    parents: Mapping[SnapshotId, SnapshotId]
    """The new parent of each snapshot that is edited."""
    deleted_branches: tuple[str, ...]
    deleted_tags: tuple[str, ...]
    reasons: Mapping[SnapshotId, tuple[str, ...]]
    """Why each kept snapshot stays."""

    @property
    def gone(self) -> frozenset[SnapshotId]:
        """Released, and kept by nothing: V1 counts the tip of an expired ref as released too."""
        return frozenset(self.released - self.reasons.keys())

    @property
    def is_empty(self) -> bool:
        return not (self.released or self.parents or self.deleted_branches or self.deleted_tags)


@dataclass(frozen=True, slots=True)
class Expiration:
    """A plan and the state of the repository that it was made for."""

    history: State
    plan: ExpirationPlan


def plan_for(
    repository: Repository, policy: Policy, progress: Progress | None = None
) -> Expiration:
    """The plan for the state that was opened; `UnsupportedError` for legacy generations.

    `FormatError` if a tip that stays cannot be read: the released snapshots may be all that is
    left of the data.
    """
    progress = progress or Progress()
    repository.check_writable()
    repository.check_online()
    try:
        with progress.phase("reading the history", None, "snapshots") as counter:
            snapshots = repository.all_snapshots(counter.advance)
    except ObjectNotFoundError as error:
        raise FormatError("the file of this snapshot is missing", path=error.path) from None
    history = State(snapshots, dict(repository.branches()), dict(repository.tags()))
    plan = plan_expiration(history, policy, repository.spec_version)
    logger.info("plan: release %d of %d snapshots", len(plan.released), len(history.parents))
    if not plan.is_empty:
        check_tips(repository, plan.deleted_branches, plan.deleted_tags, progress)
    return Expiration(history, plan)


def check_tips(
    repository: Repository,
    deleted_branches: Collection[str],
    deleted_tags: Collection[str],
    progress: Progress,
) -> None:
    """`FormatError` unless main exists, and the tips of all other refs can be read."""
    raise_first(
        check_main(repository.branches(), repository.refs.branch_object(DEFAULT_BRANCH)),
        hint=Remedy("create-branch", {"branch": DEFAULT_BRANCH}),
    )
    names: dict[str, list[str]] = defaultdict(list)
    for kind, refs, deleted in (
        ("branch", repository.branches(), deleted_branches),
        ("tag", repository.tags(), deleted_tags),
    ):
        for name, tip in sorted(refs.items()):
            if name not in deleted:
                names[repository.layout.snapshot(tip)].append(f"the {kind} {name}")
    found = repository.storage.read_many(names, concurrency=TIPS_IN_FLIGHT)
    for path, data in progress.count(found, "reading the tips", len(names), "snapshots"):
        try:
            if isinstance(data, ObjectNotFoundError):
                raise error_of(missing(path, "the file does not exist"))
            if isinstance(data, StorageError):
                raise data
            tip = SnapshotId.parse(path.rpartition("/")[2])
            raise_first(check_snapshot_id(decode_in_either_form(data), tip))
        except FormatError as error:
            owner = names[path][0]
            raise FormatError(
                f"{owner} cannot be read: {error.reason}, so nothing is changed",
                path=path,
                hint=Remedy("restore-or-move-ref"),
                code=error.code,
            ) from None


def plan_expiration(state: State, policy: Policy, spec_version: int = 2) -> ExpirationPlan:
    policy.check()
    if policy.is_official:
        assert policy.older_than is not None
        if spec_version == 1:
            return _plan_official_v1(state, policy, policy.older_than)
        return _plan_official_v2(state, policy, policy.older_than)
    return _plan_retention(state, policy)


def _plan_official_v2(state: State, policy: Policy, cutoff: int) -> ExpirationPlan:
    reasons = _keep_roots_and_young(state, cutoff)
    expired = state.parents.keys() - reasons.keys()
    deleted_branches = tuple(
        name
        for name, tip in sorted(state.branches.items())
        if policy.delete_expired_branches and name != DEFAULT_BRANCH and tip in expired
    )
    deleted_tags = tuple(
        name
        for name, tip in sorted(state.tags.items())
        if policy.delete_expired_tags and tip in expired
    )
    _keep_tips(state, reasons, deleted_branches, deleted_tags)
    released = frozenset(expired - reasons.keys())
    return ExpirationPlan(
        released,
        _join(state, released, lambda id_: state.parents[id_] is None, _only_root(state)),
        deleted_branches,
        deleted_tags,
        {key: tuple(value) for key, value in reasons.items()},
    )


def _keep_roots_and_young(state: State, cutoff: float) -> dict[SnapshotId, list[str]]:
    reasons: dict[SnapshotId, list[str]] = defaultdict(list)
    parents = state.parents
    for snapshot_id, flushed_at in state.flushed_at.items():
        if parents[snapshot_id] is None:
            reasons[snapshot_id].append("root of the history")
        elif flushed_at >= cutoff:
            reasons[snapshot_id].append("newer than the cutoff")
    return reasons


def _keep_tips(
    state: State,
    reasons: dict[SnapshotId, list[str]],
    deleted_branches: tuple[str, ...],
    deleted_tags: tuple[str, ...],
) -> None:
    for name, tip in sorted(state.branches.items()):
        if name not in deleted_branches:
            reasons[tip].append(f"tip of the branch {name}")
    for name, tip in sorted(state.tags.items()):
        if name not in deleted_tags:
            reasons[tip].append(f"tag {name}")


def _only_root(state: State) -> SnapshotId | None:
    """The root of all snapshots, if there is only one."""
    roots = [id_ for id_, parent in state.parents.items() if parent is None]
    return roots[0] if len(roots) == 1 else None


def _join(
    state: State,
    released: frozenset[SnapshotId],
    is_joint: Callable[[SnapshotId], bool],
    only_joint: SnapshotId | None = None,
) -> dict[SnapshotId, SnapshotId]:
    """The new parent of each kept snapshot whose parent is released: its nearest joint."""
    joined = {
        id_: parent
        for id_, parent in state.parents.items()
        if parent is not None and parent in released and id_ not in released
    }
    if only_joint is not None:
        return dict.fromkeys(joined, only_joint)
    joints = find_nearest(set(joined.values()), state.parent_of, is_joint)
    # The root is never released, so each of them has a joint.
    return {id_: joint for id_, parent in joined.items() if (joint := joints[parent]) is not None}


def _plan_official_v1(state: State, policy: Policy, cutoff: int) -> ExpirationPlan:
    parents = dict(state.parents)
    released: set[SnapshotId] = set()
    edited: dict[SnapshotId, SnapshotId] = {}
    deleted: dict[str, list[str]] = {"tag": [], "branch": []}
    refs = [("tag", *ref) for ref in sorted(state.tags.items())]
    refs += [("branch", *ref) for ref in sorted(state.branches.items())]
    for kind, name, tip in refs:
        oldest_kept, root, passed = tip, tip, set()
        for current in walk(tip, parents.__getitem__):
            if state.flushed_at[current] >= cutoff:
                oldest_kept = current
            else:
                passed.add(current)
                root = current
        passed.discard(root)
        if oldest_kept != root and parents[oldest_kept] != root and root != tip:
            released |= passed
            parents[oldest_kept] = edited[oldest_kept] = root
        wanted = policy.delete_expired_tags if kind == "tag" else policy.delete_expired_branches
        expired = state.flushed_at[tip] < cutoff
        if wanted and expired and (kind, name) != ("branch", DEFAULT_BRANCH):
            deleted[kind].append(name)
    reasons: dict[SnapshotId, list[str]] = defaultdict(list)
    _keep_tips(state, reasons, tuple(deleted["branch"]), tuple(deleted["tag"]))
    for snapshot_id, why in _keep_roots_and_young(state, cutoff).items():
        reasons[snapshot_id] += why
    return ExpirationPlan(
        frozenset(released),
        edited,
        tuple(deleted["branch"]),
        tuple(deleted["tag"]),
        {key: tuple(value) for key, value in reasons.items()},
    )


def _plan_retention(state: State, policy: Policy) -> ExpirationPlan:
    reasons: dict[SnapshotId, list[str]] = defaultdict(list)
    reachable: set[SnapshotId] = set()
    for name, tip in sorted(state.branches.items()):
        ancestry = [*state.ancestry(tip)]
        reachable.update(ancestry)
        if policy.covers(name):
            times = [state.flushed_at[id_] for id_ in ancestry]
            for number, rule in apply_rules(policy, times):
                reasons[ancestry[number]].append(f"{rule} ({name})")
        else:
            why = "protected" if matches(name, policy.protect) else "not covered by the policy"
            for snapshot_id in ancestry:
                reasons[snapshot_id].append(f"branch {name} is {why}")
    for name, tip in sorted(state.tags.items()):
        for snapshot_id in state.ancestry(tip):
            if snapshot_id in reachable:
                break
            reachable.add(snapshot_id)
        if matches(name, policy.keep_tagged):
            reasons[tip].append(f"tagged {name}")
    if policy.has_keep_rules and not reasons:
        raise RefusedError(
            "the policy would keep nothing",
            hint=Remedy("check-keep-rules"),
        )
    cutoff = math.inf if policy.older_than is None else policy.older_than
    for snapshot_id, others in _keep_roots_and_young(state, cutoff).items():
        reasons[snapshot_id] += others
    if policy.older_than is None:
        for snapshot_id, parent in state.parents.items():
            if snapshot_id not in reachable and parent is not None:
                reasons[snapshot_id].append("reached by no ref: left to gc")
    deleted_branches = tuple(
        name
        for name, tip in sorted(state.branches.items())
        if policy.delete_expired_branches and name != DEFAULT_BRANCH and tip not in reasons
    )
    deleted_tags = tuple(
        name
        for name, tip in sorted(state.tags.items())
        if policy.delete_expired_tags and tip not in reasons and not matches(name, policy.protect)
    )
    _keep_tips(state, reasons, deleted_branches, deleted_tags)
    released = frozenset(state.parents.keys() - reasons.keys())
    return ExpirationPlan(
        released,
        _join(state, released, lambda id_: id_ not in released),
        deleted_branches,
        deleted_tags,
        {key: tuple(value) for key, value in reasons.items()},
    )
