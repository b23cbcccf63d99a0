"""Processes that kill themselves: `python -m tests.faults.killed OPERATION ROOT...`.

On the first ROOT the operation is killed at step 1, on the next one at step 2, and so on until
one finishes. Each is a fork of this process and spares the start of an interpreter; the exit
status of each is printed.

A step is anything it does to a file below ROOT: open, lock, link, rename, remove, make a
directory. Python reports each to an audit hook before it happens, so that `kill -9` can strike
between any two, inside the storage too.
"""

from __future__ import annotations

import os
import signal
import sys

from icectl.model.ids import SnapshotId
from icectl.ops.adopt import adopt_snapshot
from icectl.ops.import_legacy.execute import import_repository
from icectl.ops.undo.run import UndoOptions, execute_undo, plan_restore, plan_undo
from icectl.ops.upgrade import execute_upgrade, plan_upgrade
from icectl.pipeline.progress import Progress
from icectl.repository.config_changes import update_config
from icectl.repository.initialize import initialize_repository
from icectl.repository.open import open_repository
from icectl.storage.local import LocalStorage

EVENTS = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.listdir", "fcntl.flock"}


def operate(root: str, operation: str) -> None:
    storage = LocalStorage(root)
    if operation.startswith("initialize"):
        initialize_repository(storage, spec_version=int(operation[-1]))
        return
    if operation.startswith("import:"):
        source = open_repository(LocalStorage(operation.removeprefix("import:")))
        import_repository(source, storage, Progress())
        return
    repository = open_repository(storage)
    tip = repository.branches()["main"]
    parent = repository.snapshot_info(tip).parent_id
    assert isinstance(parent, SnapshotId)
    if operation == "create_tag":
        repository.refs.create_tag("new", tip)
    elif operation == "create_branch":
        repository.refs.create_branch("new", tip)
    elif operation == "reset_branch":
        repository.refs.reset_branch("main", parent)
    elif operation == "delete_branch":
        repository.refs.delete_branch("old")
    elif operation == "delete_tag":
        repository.refs.delete_tag("old")
    elif operation == "undo":
        plan = plan_undo(repository, None, int, UndoOptions(), Progress())
        execute_undo(repository, plan, UndoOptions(), Progress())
    elif operation.startswith("restore"):
        to = operation.removeprefix("restore")
        plan = plan_restore(repository, to, int, UndoOptions(), Progress())
        execute_undo(repository, plan, UndoOptions(), Progress())
    elif operation.startswith("adopt:"):
        lost = SnapshotId.parse(operation.removeprefix("adopt:"))
        adopt_snapshot(repository, "adopted", lost, Progress())
    elif operation == "upgrade":
        plan = plan_upgrade(repository, Progress())
        execute_upgrade(storage, plan, Progress())
    elif operation == "update_config":
        update_config(repository, lambda config: {**config, "inline_chunk_threshold_bytes": 4321})
    else:
        raise SystemExit(f"no such operation: {operation}")


def kill_self_at(step: int, root: str) -> None:
    remaining = step

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal remaining
        if event not in EVENTS:
            return
        if event != "fcntl.flock" and not str(arguments[0]).startswith(root):
            return
        remaining -= 1
        if remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main(operation: str, *roots: str) -> None:
    for step, root in enumerate(roots, start=1):
        child = os.fork()
        if child == 0:
            kill_self_at(step, root)
            operate(root, operation)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(status, flush=True)
        if status != -signal.SIGKILL:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
