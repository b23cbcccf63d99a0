"""Write the page of `report`: one file with its data, style and scripts, which loads nothing.

The data are the documents of `--json`, unchanged; `page.js` draws them. The content security
policy allows exactly the scripts and the style of the page, by their hashes: if text from the
repository got into the markup, it still could not run or load anything.
"""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Hashable
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib import resources
from string import Template
from typing import Any

from icectl import __version__
from icectl.ops.report import Report
from icectl.render.graph import GraphRow, assign_lanes, order_for_graph
from icectl.render.json import render_json
from icectl.render.operations import beyond_reach_document, update_document
from icectl.render.report.charts import load_vega, read_charts
from icectl.render.text import escape_controls, format_time


@dataclass(frozen=True, slots=True)
class Call:
    """How the user asked for the report, for the commands that print the same numbers."""

    made_at: int
    at_op: str | None = None
    policy: tuple[str, ...] = ()
    """The options of `expire`."""
    gc_older_than: str | None = None
    level: str | None = None


def documents(report: Report, call: Call) -> dict[str, Any]:
    """The documents in the page by their names; those of commands are what `--json` prints."""
    operations = None
    if report.operations is not None:
        operations = {
            "updates": [update_document(one) for one in report.operations],
            "beyond_reach": beyond_reach_document(report.operations_end),
        }
    return {
        "report": _about(report, call),
        "status": report.status,
        "stats": report.stats,
        "log": {"ref": None, "snapshots": report.commits},
        "ops-log": operations,
        "expire": report.expiration,
        "gc": report.garbage,
        "validate": report.validation,
    }


def render_page(report: Report, call: Call) -> str:
    vega = _escape_script(load_vega().javascript_bundle())
    style, script, page = (_read(name) for name in ("page.css", "page.js", "page.html"))
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src {_hash(vega)} {_hash(script)}; style-src {_hash(style)}; img-src data:"
    )
    data = {**documents(report, call), "charts": read_charts()}
    return Template(page).substitute(
        policy=policy,
        title=escape(f"icectl report: {escape_controls(report.status.location)}"),
        style=style,
        data="\n".join(_embed(name, document) for name, document in data.items()),
        vega=vega,
        script=script,
    )


def _about(report: Report, call: Call) -> dict[str, Any]:
    commits = report.commits
    known = {commit.id for commit in commits}
    rows = order_for_graph(
        GraphRow(
            commit.id,
            commit.parent_id if commit.parent_id in known else None,
            time=commit.flushed_at,
        )
        for commit in commits
    )
    places: dict[Hashable, int] = {commit.id: place for place, commit in enumerate(commits)}
    at_op = () if call.at_op is None else ("--at-op", call.at_op)
    by = ("--by", "branches", "--by", "tags", "--by", "snapshots", "--by", "growth")
    commands = {
        "log": ("log", "--all", "--stat", *at_op),
        "stats": ("stats", *by, *call.policy, *at_op),
        "ops-log": ("ops-log",),
        "expire": ("expire", *call.policy, "--dry-run"),
        "gc": ("gc", "--older-than", call.gc_older_than or "", "--dry-run"),
        "validate": ("validate", "--level", call.level or "", *at_op),
    }
    return {
        "version": __version__,
        "made_at": format_time(call.made_at),
        "at_op": call.at_op,
        "commands": {
            name: shlex.join(("icectl", *words, "--json")) for name, words in commands.items()
        },
        "order": [places[row.id] for row in rows],
        "lanes": assign_lanes(rows),
    }


def _read(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The source expression of a content security policy that allows this text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _embed(name: str, document: Any) -> str:
    """No `<` is left, so that no text ends the element or begins another."""
    text = render_json(document).replace("<", "\\u003c")
    return f'<script type="application/json" id="data-{name}">{text}</script>'


def _escape_script(script: str) -> str:
    """In a string or a regular expression, the slash can be escaped; it occurs nowhere else."""
    return script.replace("</script", "<\\/script")
