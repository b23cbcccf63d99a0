"""Written reports, and the documents in them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import icechunk as ic
import zarr

from icectl.format.repo import decode_raw_repo
from tests.official.histories import create, linear_history
from tests.validate.damage import Patient

ATTACK = "<img src=x onerror=alert(1)>"
HOSTILE = (
    f"</script>{ATTACK}",
    f"<!--<script>{ATTACK}",
    "__proto__",
    "constructor",
    "${7*7}{{7*7}}%s%n",
    "\u202egnp.exe",
    "\x1b[31mred\x07",
    "javascript:alert(1)",
    "'\"><svg onload=alert(1)>",
)
_DOCUMENT = re.compile(r'<script type="application/json" id="data-([a-z-]+)">(.*?)</script>')


def read_documents(page: str) -> dict[str, Any]:
    """The documents by their names, as a program reads them that knows nothing of HTML."""
    return {name: json.loads(text) for name, text in _DOCUMENT.findall(page)}


def size_without_data(page: str) -> int:
    """Bytes without the documents of the repository; the chart specifications count."""
    data = sum(len(text.encode()) for name, text in _DOCUMENT.findall(page) if name != "charts")
    return len(page.encode()) - data


def repository_of_other_times(where: Path, times: Sequence[int]) -> Path:
    """A linear history whose snapshots were flushed at these times; the last one is repeated."""
    linear_history(where, max(3, len(times)))
    patient = Patient(where)
    given = iter(times)

    def change(raw: Any) -> Any:
        new = (one._replace(flushed_at=next(given, times[-1])) for one in raw.snapshots)
        return raw._replace(snapshots=tuple(new))

    patient.repo(change)
    for one in decode_raw_repo((where / "repo").read_bytes())[0].snapshots:
        moment = one.flushed_at
        patient.snapshot(lambda raw, moment=moment: raw._replace(flushed_at=moment), str(one.id))
    return where


def hostile_repository(where: Path) -> Path:
    """Every text that a writer controls is an attack: messages, metadata, refs and nodes."""
    repo = create(where)
    for number, text in enumerate(HOSTILE):
        session = repo.writable_session("main")
        group = zarr.open_group(session.store, mode="a")
        name = text.replace("/", "|").replace("__", "~~")  # zarr forbids these in names
        group.create_array(name, shape=(20,), chunks=(2,), dtype="f8", fill_value=-1)[:] = number
        tip = session.commit(text, metadata={text: text, "text": text})
        try:
            repo.create_branch(text.replace("/", "|"), tip)
        except ic.IcechunkError:
            repo.create_branch(f"b{number}", tip)
        repo.create_tag(text.replace("/", "|"), tip)
    return where
