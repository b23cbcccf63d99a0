"""Planning an expiration: what goes, what stays and why. Pure: it reads nothing.

A cutoff alone is the official expiration, exactly: in V2 every snapshot of the repository is
considered and a kept one continues at its root; in V1 each ref is taken on its own, tags
first, and the oldest snapshot that it keeps is joined to the root. With rules, a kept
snapshot continues at its nearest kept ancestor, and what no ref reaches is left to gc unless
a cutoff releases it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from icectl.errors import FormatError, RefusedError, Remedy
from icectl.model.ids import SnapshotId
from icectl.model.repo import SnapshotInfo
from icectl.ops.expire.policy import Policy, apply_rules, matches
from icectl.repository.edits import DEFAULT_BRANCH


@dataclass(frozen=True, slots=True)
class History:
    """The snapshots and refs of one state of a repository."""

    spec_version: int
    snapshots: Mapping[SnapshotId, SnapshotInfo]
    branches: Mapping[str, SnapshotId]
    tags: Mapping[str, SnapshotId]

    def ancestry(self, tip: SnapshotId) -> Iterator[SnapshotInfo]:
        seen = set()
        current: SnapshotId | None = tip
        while current is not None:
            snapshot = self.snapshots.get(current)
            if snapshot is None or current in seen:
                raise FormatError(f"the ancestry of snapshot {tip} is damaged at {current}")
            seen.add(current)
            yield snapshot
            current = snapshot.parent_id


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


def plan_expiration(history: History, policy: Policy) -> ExpirationPlan:
    policy.check()
    if policy.is_official:
        assert policy.older_than is not None
        if history.spec_version == 1:
            return _plan_official_v1(history, policy, policy.older_than)
        return _plan_official_v2(history, policy, policy.older_than)
    return _plan_retention(history, policy)


def _plan_official_v2(history: History, policy: Policy, cutoff: int) -> ExpirationPlan:
    expired = {
        snapshot.id
        for snapshot in history.snapshots.values()
        if snapshot.flushed_at < cutoff and snapshot.parent_id is not None
    }
    deleted_branches = tuple(
        name
        for name, tip in sorted(history.branches.items())
        if policy.delete_expired_branches and name != DEFAULT_BRANCH and tip in expired
    )
    deleted_tags = tuple(
        name
        for name, tip in sorted(history.tags.items())
        if policy.delete_expired_tags and tip in expired
    )
    reasons: dict[SnapshotId, list[str]] = defaultdict(list)
    for snapshot in history.snapshots.values():
        if snapshot.parent_id is None:
            reasons[snapshot.id].append("root of the history")
        elif snapshot.flushed_at >= cutoff:
            reasons[snapshot.id].append("newer than the cutoff")
    _keep_tips(history, reasons, deleted_branches, deleted_tags)
    released = frozenset(expired - reasons.keys())
    return ExpirationPlan(
        released,
        _join_to_root(history, released),
        deleted_branches,
        deleted_tags,
        {key: tuple(value) for key, value in reasons.items()},
    )


def _keep_tips(
    history: History,
    reasons: dict[SnapshotId, list[str]],
    deleted_branches: tuple[str, ...],
    deleted_tags: tuple[str, ...],
) -> None:
    for name, tip in sorted(history.branches.items()):
        if name not in deleted_branches:
            reasons[tip].append(f"tip of the branch {name}")
    for name, tip in sorted(history.tags.items()):
        if name not in deleted_tags:
            reasons[tip].append(f"tag {name}")


def _join_to_root(
    history: History, released: frozenset[SnapshotId]
) -> dict[SnapshotId, SnapshotId]:
    roots: dict[SnapshotId, SnapshotId] = {}
    parents = {}
    for snapshot in history.snapshots.values():
        if snapshot.id not in released and snapshot.parent_id in released:
            walked = []
            for ancestor in history.ancestry(snapshot.id):
                walked.append(ancestor.id)
                if ancestor.id in roots:
                    break
            root = roots.get(walked[-1], walked[-1])
            roots.update(dict.fromkeys(walked, root))
            parents[snapshot.id] = root
    return parents


def _plan_official_v1(history: History, policy: Policy, cutoff: int) -> ExpirationPlan:
    parents: dict[SnapshotId, SnapshotId | None] = {
        snapshot.id: snapshot.parent_id for snapshot in history.snapshots.values()
    }
    released: set[SnapshotId] = set()
    edited: dict[SnapshotId, SnapshotId] = {}
    deleted: dict[str, list[str]] = {"tag": [], "branch": []}
    refs = [("tag", *ref) for ref in sorted(history.tags.items())]
    refs += [("branch", *ref) for ref in sorted(history.branches.items())]
    for kind, name, tip in refs:
        oldest_kept, root, passed = tip, tip, set()
        current: SnapshotId | None = tip
        while current is not None:
            if history.snapshots[current].flushed_at >= cutoff:
                oldest_kept = current
            else:
                passed.add(current)
                root = current
            current = parents[current]
        passed.discard(root)
        if oldest_kept != root and parents[oldest_kept] != root and root != tip:
            released |= passed
            parents[oldest_kept] = edited[oldest_kept] = root
        wanted = policy.delete_expired_tags if kind == "tag" else policy.delete_expired_branches
        expired = history.snapshots[tip].flushed_at < cutoff
        if wanted and expired and (kind, name) != ("branch", DEFAULT_BRANCH):
            deleted[kind].append(name)
    reasons: dict[SnapshotId, list[str]] = defaultdict(list)
    _keep_tips(history, reasons, tuple(deleted["branch"]), tuple(deleted["tag"]))
    for snapshot in history.snapshots.values():
        if snapshot.parent_id is None:
            reasons[snapshot.id].append("root of the history")
        elif snapshot.flushed_at >= cutoff:
            reasons[snapshot.id].append("newer than the cutoff")
    return ExpirationPlan(
        frozenset(released),
        edited,
        tuple(deleted["branch"]),
        tuple(deleted["tag"]),
        {key: tuple(value) for key, value in reasons.items()},
    )


def _plan_retention(history: History, policy: Policy) -> ExpirationPlan:
    reasons: dict[SnapshotId, list[str]] = defaultdict(list)
    reachable: set[SnapshotId] = set()
    for name, tip in sorted(history.branches.items()):
        ancestry = list(history.ancestry(tip))
        reachable.update(snapshot.id for snapshot in ancestry)
        if policy.covers(name):
            for snapshot, rule in apply_rules(policy, ancestry):
                reasons[snapshot.id].append(f"{rule} ({name})")
        else:
            why = "protected" if matches(name, policy.protect) else "not covered by the policy"
            for snapshot in ancestry:
                reasons[snapshot.id].append(f"branch {name} is {why}")
    for name, tip in sorted(history.tags.items()):
        reachable.update(snapshot.id for snapshot in history.ancestry(tip))
        if matches(name, policy.keep_tagged):
            reasons[tip].append(f"tagged {name}")
    if policy.has_keep_rules and not reasons:
        raise RefusedError(
            "the policy would keep nothing",
            hint=Remedy("check-keep-rules"),
        )
    for snapshot in history.snapshots.values():
        if snapshot.parent_id is None:
            reasons[snapshot.id].append("root of the history")
        elif policy.older_than is not None and snapshot.flushed_at >= policy.older_than:
            reasons[snapshot.id].append("newer than the cutoff")
        elif policy.older_than is None and snapshot.id not in reachable:
            reasons[snapshot.id].append("reached by no ref: left to gc")
    deleted_branches = tuple(
        name
        for name, tip in sorted(history.branches.items())
        if policy.delete_expired_branches and name != DEFAULT_BRANCH and tip not in reasons
    )
    deleted_tags = tuple(
        name
        for name, tip in sorted(history.tags.items())
        if policy.delete_expired_tags and tip not in reasons and not matches(name, policy.protect)
    )
    _keep_tips(history, reasons, deleted_branches, deleted_tags)
    released = frozenset(history.snapshots.keys() - reasons.keys())
    return ExpirationPlan(
        released,
        _join_to_nearest(history, released),
        deleted_branches,
        deleted_tags,
        {key: tuple(value) for key, value in reasons.items()},
    )


def _join_to_nearest(
    history: History, released: frozenset[SnapshotId]
) -> dict[SnapshotId, SnapshotId]:
    parents = {}
    for snapshot in history.snapshots.values():
        if snapshot.id not in released and snapshot.parent_id in released:
            ancestors = history.ancestry(snapshot.parent_id)
            parents[snapshot.id] = next(one.id for one in ancestors if one.id not in released)
    return parents
