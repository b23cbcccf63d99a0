"""The page of `icectl report` in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By

from icectl.cli.main import run
from icectl.render.text import format_size
from tests.docs.demo_repository import NOW
from tests.official import linear_history, many_commits, open_official
from tests.official.histories import commit
from tests.official.wide import many_arrays
from tests.report.browser import CHROMIUM, DRIVER, Browser, started_browser
from tests.report.pages import (
    ATTACK,
    HOSTILE,
    hostile_repository,
    read_documents,
    repository_of_other_times,
)

pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
    pytest.mark.xdist_group("browser"),
]
FORTNIGHT = 14 * 24 * 3600 * 1_000_000
ROWS = "return [...document.querySelectorAll('#rows li')].map(row => row.innerText)"
CUT_TIMES = """
const list = document.querySelector('#rows').getBoundingClientRect();
return [...document.querySelectorAll('#rows .time')]
  .filter(time => time.getBoundingClientRect().right > list.right).map(time => time.textContent);
"""
CELLS = """
const details = [...document.querySelectorAll(`#${arguments[0]} details`)]
  .find(one => one.querySelector('summary').textContent.startsWith(arguments[1]));
details.open = true;
return details;
"""
WATCH = """
window.attacked = [];
for (const name of ['alert', 'confirm', 'prompt', 'open', 'fetch']) {
  window[name] = () => window.attacked.push(name);
}
addEventListener('securitypolicyviolation', event => window.attacked.push(event.violatedDirective));
"""


def write(repository: Path, page: Path, *options: str) -> Path:
    environ = {"HOME": str(page.parent), "ICECTL_NOW": NOW}
    words = ["report", "-r", str(repository), "--html", str(page), "--quiet", *options]
    assert run(words, environ) == 0
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as browser:
        browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        yield browser


@pytest.fixture(autouse=True)
def nothing_happens(browser: Browser) -> Iterator[None]:
    """No page says anything on the console, loads anything or violates its policy."""
    browser.resize(1280, 900)
    yield
    assert browser.messages() == []
    assert browser.run("return window.attacked") == []
    assert browser.run("return performance.getEntriesByType('resource').map(one => one.name)") == []
    assert browser.run("return Object.keys(Object.prototype)") == []


@pytest.fixture(scope="module")
def page(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = ("--older-than", "2026-02-16", "--gc-older-than", "2026-02-20")
    where = tmp_path_factory.mktemp("page") / "page.html"
    return write(demo, where, *options, "--validate", "chunks")


@pytest.fixture(scope="module")
def documents(page: Path) -> Any:
    return read_documents(page.read_text(encoding="utf-8"))


def cells(browser: Browser, section: str, title: str) -> list[list[str]]:
    """Open the table and return what it shows."""
    details = browser.run(CELLS, section, title)
    browser.wait(f"return document.querySelectorAll('#{section} details[open] tbody tr').length")
    return browser.run(
        "return [...arguments[0].querySelectorAll('tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.textContent))",
        details,
    )


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_every_section_is_drawn(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.resize(width, 900, dark=dark)
    browser.open(page)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    for section in ("growth", "arrays", "refs", "operations", "freed"):
        path = f"#{section} .chart svg"
        assert browser.run(f"return document.querySelector('{path}').clientHeight > 50")
        assert browser.run(f"return document.querySelector('{path}').clientWidth") > width / 2
    background = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(", "))) < 200) == dark
    label = (
        "return document.querySelector('#growth .chart .role-axis-label text').getAttribute('fill')"
    )
    assert browser.run(label) == ("#9aa4af" if dark else "#59636e")


def test_colours_follow_the_system(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.resize(1280, 900, dark=True)
    fill = "document.querySelector('#growth .chart .role-axis-label text')?.getAttribute('fill')"
    browser.wait(f"return {fill} === '#9aa4af'")
    assert browser.run("return document.querySelectorAll('#graph svg path').length") > 10


def test_charts_follow_the_width(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.resize(500, 900)
    for section in ("growth", "arrays", "refs", "operations"):
        browser.wait(f"return document.querySelector('#{section} svg').clientWidth < 500")


def test_head(browser: Browser, page: Path, documents: Any) -> None:
    browser.open(page)
    tiles = browser.run(
        "return [...document.querySelectorAll('#tiles .tile')]"
        ".map(tile => [...tile.children].map(part => part.textContent))"
    )
    shown = {label.partition(",")[0]: value for value, label in tiles}
    stats = documents["stats"]
    kinds = {"native": "native_bytes", "inline": "inlined_bytes", "virtual": "virtual_bytes"}
    for label, field in kinds.items():
        assert shown[label] == format_size(stats[field])
    assert shown["in all versions"] == format_size(sum(stats[one] for one in kinds.values()))
    assert shown["chunks"] == f"{stats['num_chunks']:,}"
    assert shown["commits"] == str(len(documents["log"]["snapshots"]))
    assert shown["operations"] == str(len(documents["ops-log"]["updates"]))
    assert shown["status"] == documents["status"]["availability"]
    freed = browser.run(
        "return [...document.querySelectorAll('#freed .tile b')].map(one => one.textContent)"
    )
    assert freed == [
        str(len(documents["expire"]["released_snapshots"])),
        str(documents["expire"]["kept_snapshots"]),
        format_size(stats["could_free"]["bytes"]),
        str(stats["could_free"]["chunks"]),
        format_size(documents["gc"]["bytes_deleted"]),
        str(sum(one["count"] for one in documents["gc"]["garbage"])),
    ]


def test_tables(browser: Browser, page: Path, documents: Any) -> None:
    browser.open(page)
    stats = documents["stats"]
    assert cells(browser, "arrays", "Arrays") == [
        [
            one["path"],
            format_size(one["native_bytes"] + one["inlined_bytes"] + one["virtual_bytes"]),
            *(format_size(one[f"{kind}_bytes"]) for kind in ("native", "inlined", "virtual")),
            f"{one['num_chunks']:,}",
        ]
        for one in stats["arrays"]
    ]
    assert cells(browser, "refs", "Branches and tags") == [
        [
            kind,
            one["name"],
            format_size(one["bytes"]),
            format_size(one["own_bytes"]),
            format_size(one["bytes"] - one["own_bytes"]),
            f"{one['num_chunks']:,}",
        ]
        for kind, refs in (("branch", stats["branches"]), ("tag", stats["tags"]))
        for one in refs
    ]
    growth = cells(browser, "growth", "Growth by array")
    assert [row[1:] for row in growth] == [
        [one["id"], one["path"], format_size(one["new_bytes"])] for one in stats["growth"]
    ]
    operations = cells(browser, "operations", "Operations")
    assert [row[0] for row in operations] == [
        f"@{one['op']}" for one in documents["ops-log"]["updates"]
    ]
    garbage = cells(browser, "freed", "Garbage by kind")
    assert [row[1:] for row in garbage] == [
        [f"{one['count']:,}", format_size(one["bytes"])] for one in documents["gc"]["garbage"]
    ]
    fates = cells(browser, "freed", "Snapshots under the policy")
    assert sum(row[3] == "released" for row in fates) == documents["expire"]["gone_snapshots"]
    findings = cells(browser, "findings", "Findings")
    assert [row[0] for row in findings] == [
        one["code"] for one in documents["validate"]["findings"]
    ]
    commits = cells(browser, "history", "Commits")
    assert {row[0] for row in commits} == {one["id"] for one in documents["log"]["snapshots"]}
    new = {one["id"]: format_size(one["new_bytes"]) for one in stats["snapshots"]}
    assert {row[0]: row[2] for row in commits} == {
        row[0]: new.get(row[0], "0 B") for row in commits
    }


def test_sorting(browser: Browser, page: Path, documents: Any) -> None:
    browser.open(page)
    cells(browser, "arrays", "Arrays")
    heading = browser.driver.find_element(By.XPATH, "//*[@id='arrays']//th[.='native']/button")
    by_size = sorted(documents["stats"]["arrays"], key=lambda one: one["native_bytes"])
    heading.click()
    shown = cells(browser, "arrays", "Arrays")
    assert [row[2] for row in shown] == [
        format_size(one["native_bytes"]) for one in reversed(by_size)
    ]
    heading.click()
    shown = cells(browser, "arrays", "Arrays")
    assert [row[2] for row in shown] == [format_size(one["native_bytes"]) for one in by_size]
    assert browser.run("return document.querySelectorAll('#arrays [aria-sort]').length") == 1


def test_history(browser: Browser, page: Path, documents: Any) -> None:
    browser.open(page)
    rows = browser.run(ROWS)
    assert len(rows) == len(documents["log"]["snapshots"])
    assert rows[0].startswith("main")
    assert sum("detached" in row for row in rows) == documents["stats"]["num_unreachable"]
    dots = "return document.querySelectorAll('#graph .mark-symbol path').length"
    assert browser.run(dots) == len(rows)


def test_filter(browser: Browser, page: Path, documents: Any) -> None:
    browser.open(page)
    field = browser.driver.find_element(By.ID, "filter")
    field.send_keys("Reprocessing")
    assert len(browser.run(ROWS)) == 1
    field.clear()
    field.send_keys("observations")
    wanted = [one for one in documents["log"]["snapshots"] if "observations" in one["message"]]
    assert len(browser.run(ROWS)) == len(wanted)
    assert browser.run("return document.querySelector('#matches').textContent").startswith(
        f"{len(wanted)} of "
    )
    field.clear()
    field.send_keys("no such text")
    assert browser.run(ROWS) == []


def test_folding(browser: Browser, page: Path, documents: Any) -> None:
    browser.open(page)
    browser.driver.find_element(By.ID, "fold").click()
    rows = browser.run(ROWS)
    folded = [row for row in rows if row.startswith("⋯")]
    hidden = sum(int(row.split()[1]) - 1 for row in folded)
    assert folded
    assert len(rows) + hidden == len(documents["log"]["snapshots"])
    browser.driver.find_element(By.CSS_SELECTOR, "#rows button").click()
    assert len(browser.run(ROWS)) == len(rows) + int(folded[0].split()[1]) - 1
    browser.driver.find_element(By.ID, "fold").click()
    assert len(browser.run(ROWS)) == len(documents["log"]["snapshots"])


def test_hover(browser: Browser, page: Path, documents: Any) -> None:
    browser.open(page)
    tip = browser.hover(browser.driver.find_element(By.CSS_SELECTOR, "#rows li"), "#tip")
    newest = documents["log"]["snapshots"][0]
    assert newest["message"] in tip
    assert newest["id"] in tip
    assert newest["flushed_at"][:10] in tip
    assert f"{newest['changes']['updated_chunks']} updated chunks" in tip


def test_hostile_text(browser: Browser, tmp_path: Path) -> None:
    page = write(hostile_repository(tmp_path / "repo"), tmp_path / "page.html")
    browser.open(page)
    browser.driver.find_element(By.ID, "fold").click()
    for details in browser.driver.find_elements(By.TAG_NAME, "details"):
        browser.run("arguments[0].open = true", details)
    browser.wait("return document.querySelectorAll('#operations tbody tr').length")
    elements = browser.run(
        "return [...new Set([...document.querySelectorAll('*')].map(one => one.tagName))]"
    )
    assert {"IMG", "IFRAME", "OBJECT", "A", "LINK", "EMBED"} & set(elements) == set()
    assert browser.run("return document.querySelectorAll('script:not([type])').length") == 2
    handlers = "return [...document.querySelectorAll('*')].flatMap(one => [...one.attributes]).filter(one => one.name.startsWith('on')).length"
    assert browser.run(handlers) == 0
    rows = "\n".join(browser.run(ROWS))
    assert ATTACK in rows
    assert "\\u202egnp.exe" in rows
    assert "\\u001b[31mred" in rows
    assert "__proto__" in rows
    everything = browser.run("return document.body.innerText")
    assert not {"\u202e", "\x1b", "\x07"} & set(everything)
    commit = browser.driver.find_element(By.XPATH, f"//li[contains(., '{ATTACK}')]")
    assert ATTACK in browser.hover(commit, "#tip")
    for tile in browser.driver.find_elements(By.CSS_SELECTOR, "#arrays .mark-rect path")[
        : len(HOSTILE)
    ]:
        assert "array" in browser.hover(tile, "#vg-tooltip-element.visible")
    bar = browser.driver.find_element(By.CSS_SELECTOR, "#refs .mark-rect path")
    assert "shared" in browser.hover(bar, "#vg-tooltip-element.visible")
    tags = "return [...document.querySelectorAll('#tip *, #vg-tooltip-element *')].map(one => one.tagName)"
    assert set(browser.run(tags)) <= {"DIV", "TABLE", "TBODY", "TR", "TD", "H2"}


def test_the_policy_is_in_force(browser: Browser, page: Path) -> None:
    """Even if text became markup, it could not run."""
    browser.open(page)
    browser.run(
        "const script = document.createElement('script');"
        "script.textContent = 'window.injected = true';"
        "document.body.append(script);"
        "document.body.insertAdjacentHTML('beforeend', '<img src=http://127.0.0.1:9/x onerror=\"window.injected = true\">');"
    )
    browser.wait("return window.attacked.length >= 2")
    assert browser.run("return window.injected") is None
    assert "script-src-elem" in browser.run("return window.attacked")
    assert "img-src" in browser.run("return window.attacked")
    browser.messages()
    browser.open(page)


def test_long_names_leave_room_for_the_time(browser: Browser, tmp_path: Path) -> None:
    repo = linear_history(tmp_path / "repo", 3)
    names = [f"feature/{'LONG' * 10}-{number:03}" for number in range(20)]
    for name in names:
        repo.create_branch(name, repo.lookup_branch("main"))
    for name in names[4:]:
        with commit(repo, f"on {name}", branch=name) as root:
            root["inline"][:] = 99
    page = write(tmp_path / "repo", tmp_path / "page.html")
    browser.open(page)
    for width in (1280, 390):
        browser.resize(width, 900)
        browser.wait(f"return document.querySelector('#graph svg').clientWidth < {width / 3}")
        rows = "document.querySelector('#rows')"
        overflow = f"return {rows}.parentNode.scrollWidth - {rows}.parentNode.clientWidth"
        assert browser.run(overflow) <= 0
        assert browser.run(CUT_TIMES) == []
        labels = browser.run(
            "return [...document.querySelectorAll('#refs .role-axis-label text')]"
            ".map(one => one.textContent).filter(one => one.includes('…'))"
        )
        assert labels and len({*labels}) == len(labels)
    row = browser.driver.find_element(By.XPATH, f"//li[span='{names[0]}']")
    assert names[0] in browser.hover(row, "#tip")


@pytest.mark.parametrize("by", ["arrays", "growth"])
def test_text_of_a_plot_fits(browser: Browser, tmp_path: Path, by: str) -> None:
    """The font of the reader is not the one that the text was measured with."""
    repo = linear_history(tmp_path / "repo", 1)
    with commit(repo, "arrays with long names") as root:
        for number in range(8):
            name = f"{'W' * 40}/{number}{'W' * 60}"
            root.create_array(name, shape=(64,), chunks=(16,), dtype="i8")[:] = number
    chart = tmp_path / "chart.svg"
    words = ["stats", "-r", str(tmp_path / "repo"), "--by", by, "--plot", str(chart), "--quiet"]
    assert run(words, {"HOME": str(tmp_path)}) == 0
    browser.driver.get(chart.as_uri())
    boxes = browser.run(
        "return [...document.querySelectorAll('text')].filter(one => one.textContent)"
        ".map(one => one.getBoundingClientRect()).map(one => [one.left, one.right, one.top])"
    )
    width = browser.run("return document.documentElement.viewBox.baseVal.width")
    assert len(boxes) > 8
    assert max(right for _, right, _ in boxes) < width
    lines = sorted((top, left, right) for left, right, top in boxes)
    assert all(
        right <= after
        for (top, _, right), (below, after, _) in pairwise(lines)
        if abs(top - below) < 1
    )


@pytest.mark.parametrize(
    "times",
    [
        pytest.param([FORTNIGHT], id="all at once"),
        pytest.param([FORTNIGHT * one for one in (3, 1, 4, 1, 5)], id="clock skew"),
        pytest.param([0, 2**63, 2**64 - 1, FORTNIGHT, 10**18], id="out of range"),
    ],
)
def test_times_of_wrong_clocks(browser: Browser, tmp_path: Path, times: list[int]) -> None:
    """A writer can store any number as the time of a commit."""
    repository = repository_of_other_times(tmp_path / "repo", times)
    browser.open(write(repository, tmp_path / "page.html"))
    shapes = browser.run(
        "return [...document.querySelectorAll('#growth path')].map(one => one.getAttribute('d'))"
    )
    assert shapes and not any("NaN" in str(shape) for shape in shapes)
    growth = cells(browser, "growth", "Growth by array")
    assert len(growth) == len(
        read_documents((tmp_path / "page.html").read_text())["stats"]["growth"]
    )


@pytest.mark.parametrize("commits", [0, 1])
def test_small_repositories(browser: Browser, tmp_path: Path, commits: int) -> None:
    assert run(["init", str(tmp_path / "repo"), "--quiet"], {"HOME": str(tmp_path)}) == 0
    if commits:
        import zarr

        session = open_official(tmp_path / "repo").writable_session("main")
        zarr.create_array(session.store, name="a", shape=(4,), dtype="f8")[:] = 1
        session.commit("one")
    browser.open(write(tmp_path / "repo", tmp_path / "page.html"))
    assert len(browser.run(ROWS)) == commits + 1
    charts = browser.run("return document.querySelectorAll('.chart svg').length")
    assert charts == (4 if commits else 1)
    if commits:
        area = "document.querySelector('#growth .mark-area path').getBBox().width"
        assert browser.run(f"return {area}") > 10


def test_long_histories_are_folded(
    browser: Browser, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    many_commits(tmp_path / "repo", 1500)
    browser.open(write(tmp_path / "repo", tmp_path / "page.html"))
    rows = browser.run(ROWS)
    assert len(rows) < 20
    browser.driver.find_element(By.ID, "fold").click()
    assert len(browser.run(ROWS)) == 500
    browser.driver.find_element(By.ID, "more-commits").click()
    assert len(browser.run(ROWS)) == 1000


@pytest.mark.slow
def test_a_large_repository(browser: Browser, tmp_path: Path) -> None:
    many_arrays(tmp_path / "repo", 1000, 2000)
    page = write(tmp_path / "repo", tmp_path / "page.html")
    browser.open(page)
    best = min(browser.open(page) for _ in range(5))
    assert best < 2000
    assert len(browser.run(ROWS)) < 10
    assert len(cells(browser, "arrays", "Arrays")) == 500
