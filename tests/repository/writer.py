"""One of many writers: `python -m tests.repository.writer LOCATION NAME COUNT` creates tags."""

from __future__ import annotations

import sys

from icectl.model.ids import INITIAL_SNAPSHOT_ID
from icectl.repository import edits
from icectl.repository.update import update_repo
from icectl.storage.open import open_storage


def main(location: str, name: str, count: str) -> None:
    storage = open_storage(location)
    for number in range(int(count)):
        tag = f"{name}-{number}"
        update_repo(storage, lambda info, tag=tag: edits.create_tag(info, tag, INITIAL_SNAPSHOT_ID))


if __name__ == "__main__":
    main(*sys.argv[1:])
