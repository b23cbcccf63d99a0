// Draws the page from the documents in it, which are those of `--json`. Text from the repository
// is only ever set as text, with control characters escaped; the charts are Vega's.
"use strict";
(() => {
const read = id => JSON.parse(document.getElementById(id).textContent);
const [report, charts, status, stats, log, opsLog, expire, gc, validate] =
  ["report", "charts", "status", "stats", "log", "ops-log", "expire", "gc", "validate"]
    .map(name => read(`data-${name}`));
const ROW = 28;  // height of a commit, in page.css as well
const LANE = 14;
const MOST_LANES = 16, MOST_LANES_NARROW = 5;
const MORE = 500;  // rows to add at once
const FOLDED_FROM = 1000;  // commits
const SHORTEST_FOLD = 3;
const LOG_ERRORS = 1;
const LATEST = "9000-01-01T00:00:00.000000Z";  // in charts

// Text

const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]/gu;
const clean = text => String(text).replace(UNSAFE, found =>
  found === "\n" ? "\\n" : "\\u" + found.codePointAt(0).toString(16).padStart(4, "0"));
const cleanLines = text => String(text).split(/\r?\n/).map(clean).join("\n");
const firstLine = text => clean(String(text).split(/\r?\n/, 1)[0]);
const count = number => Number(number).toLocaleString("en-US");
const plural = (number, noun) => Number(number) === 1 ? noun : noun + (noun.endsWith("ch") ? "es" : "s");
const many = (number, noun) => `${count(number)} ${plural(number, noun)}`;
const time = text => text === null ? "" : clean(text).replace(/^(\S{10})T(\S{8})\.\d+Z$/, "$1 $2Z");
/** A time that a chart can show: one that is out of range is a number. */
const drawable = text => text < LATEST && !Number.isNaN(Date.parse(text)) ? text : LATEST;
const words = name => name.replaceAll("_", " ");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function size(bytes) {
  let number = Number(bytes), power = 0;
  while (Math.abs(number) >= (power ? 1023.95 : 1024) && power < UNITS.length - 1) {
    number /= 1024;
    power += 1;
  }
  // As icectl prints it: a tie is rounded to the even digit. Only .25 and .75 are ties.
  return `${power ? (number % 1 === 0.25 ? number - 0.01 : number).toFixed(1) : number} ${UNITS[power]}`;
}

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children.filter(child => child !== null));
  return element;
}

/** A time of which a narrow page shows only the date. */
function clock(text) {
  const [date, ...rest] = time(text).split(" ");
  return make("span", {class: "time"}, date, make("span", null, ` ${rest.join(" ")}`));
}

const find = selector => document.querySelector(selector);
const tile = (label, value, kind) =>
  make("div", {class: "tile"}, make("b", kind && {class: kind}, value), make("span", null, label));

// Charts

const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 600px)");  // in page.css as well
const drawings = [];

function embed(target, name, data, prepare) {
  const spec = structuredClone(charts[name]);
  const rows = structuredClone(data);  // Vega marks the rows that it gets
  if (Array.isArray(spec.data)) {
    for (const source of spec.data) if (rows[source.name]) source.values = rows[source.name];
  } else {
    spec.datasets = rows;
  }
  prepare(spec);
  return vegaEmbed(target, spec, {
    ast: true, actions: false, renderer: "svg", defaultStyle: false, logLevel: LOG_ERRORS,
    config: charts.themes[dark.matches ? "dark" : "light"],
    tooltip: {disableDefaultStyle: true, theme: "page"},
  });
}

/** Draw the chart now, and again when the colours change. */
function chart(target, name, data, prepare = () => {}) {
  const draw = () => embed(target, name, data, prepare);
  drawings.push(draw);
  return draw();
}

/** Let an axis count in the unit of its largest value. */
const inUnitOf = (largest, height) => spec => {
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log2(Math.max(1, largest)) / 10));
  const values = {divisor: 1024 ** power, unitName: UNITS[power]};
  for (const one of spec.params) one.value = values[one.name];
  spec.height = height ?? spec.height;
};

// Tables

/** A table that is made when it is opened; columns are [title, value, shown text, class]. */
function table(section, title, rows, columns) {
  if (!rows.length) return;
  const body = make("tbody");
  const more = make("button", {class: "more", type: "button"});
  let sorted = rows, shown = MORE;
  const fill = () => {
    body.replaceChildren(...sorted.slice(0, shown).map(row => make("tr", null, ...columns.map(
      ([, value, text, kind]) => make("td", kind && {class: kind}, (text ?? clean)(value(row) ?? ""))))));
    more.hidden = shown >= sorted.length;
    more.textContent = `Show ${count(Math.min(MORE, sorted.length - shown))} more of ${count(sorted.length)}`;
  };
  const sort = (heading, value) => {
    const down = heading.getAttribute("aria-sort") !== "descending";
    for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keys = new Map(rows.map(row => [row, value(row) ?? ""]));
    const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;
    sorted = [...rows].sort((a, b) => compare(keys.get(a), keys.get(b)) * (down ? -1 : 1));
    fill();
  };
  const headings = columns.map(([name, value, , kind]) => {
    const button = make("button", {type: "button"}, name);
    const heading = make("th", {scope: "col", ...kind && {class: kind}}, button);
    button.addEventListener("click", () => sort(heading, value));
    return heading;
  });
  more.addEventListener("click", () => { shown += MORE; fill(); });
  const details = make("details", null, make("summary", null, `${title} (${count(rows.length)})`),
    make("div", {class: "scroll"}, make("table", null, make("thead", null, make("tr", null, ...headings)), body)),
    more);
  details.addEventListener("toggle", fill, {once: true});
  section.append(details);
}

const bytes = (title, field) => [title, row => Number(row[field]), size, "number"];
const number = (title, field) => [title, row => row[field] === null ? null : Number(row[field]),
  value => value === "" ? "" : count(value), "number"];
const text = (title, field, kind) => [title, row => row[field], undefined, kind];
const moment = (title, field) => [title, row => row[field], time, "time"];

/** Say which command prints the numbers of the section. */
function source(section, name) {
  section.append(make("p", {class: "muted"}, "From ", make("code", null, report.commands[name])));
}

// The head

function drawHead() {
  const total = Number(stats.native_bytes) + Number(stats.inlined_bytes) + Number(stats.virtual_bytes);
  const numberOf = (noun, number, more = "") => tile(plural(number, noun) + more, count(number));
  const state = words(String(status.availability));
  find("#location").textContent = clean(status.location);
  find("#summary").textContent =
    `${report.at_op === null ? "Read" : `The state after ${clean(report.at_op)}, read`} at ${time(report.made_at)}`;
  find("#tiles").append(
    tile("in all versions", size(total)),
    tile("native", size(stats.native_bytes)),
    tile("inline", size(stats.inlined_bytes)),
    tile("virtual", size(stats.virtual_bytes)),
    numberOf("chunk", stats.num_chunks),
    numberOf("array", stats.arrays.length),
    numberOf("commit", log.snapshots.length, `, ${count(stats.num_unreachable)} detached`),
    numberOf("branch", stats.branches.length),
    numberOf("tag", stats.tags.length),
    opsLog === null ? tile("operations", "no log") : numberOf("operation", opsLog.updates.length),
    numberOf("manifest", stats.manifests.num_manifests, `, ${size(stats.manifests.size_bytes)}`),
    tile(status.reason ? clean(status.reason) : `status, spec version ${status.spec_version}`, state,
      state === "online" ? "good" : "warn"),
  );
  find("#made").textContent = `Made by icectl ${report.version}. The page contains all of its data and loads nothing.`;
}

// The history

const refsOf = commit =>
  [...commit.branches.map(name => ["branch", name]), ...commit.tags.map(name => ["tag", name])];

function drawHistory() {
  const growth = new Map(stats.snapshots.map(one => [one.id, one]));
  const released = new Set(expire?.released_snapshots);
  const commits = report.order.map((place, row) =>
    ({...log.snapshots[place], wanted_lane: report.lanes[row]}));
  const byId = new Map(commits.map(commit => [commit.id, commit]));
  const children = new Map();
  for (const commit of commits) {
    const siblings = children.get(commit.parent_id);
    siblings ? siblings.push(commit) : children.set(commit.parent_id, [commit]);
    commit.detached = !growth.has(commit.id);
  }
  // A run is a line of commits without refs, each with one child.
  const isPlain = commit => children.get(commit.id)?.length === 1 && byId.has(commit.parent_id)
    && !commit.branches.length && !commit.tags.length;
  for (const commit of commits) {
    if (!isPlain(commit)) continue;
    const child = children.get(commit.id)[0];
    commit.run = child.run ?? {commits: [], open: false};
    commit.run.commits.push(commit);
  }
  for (const commit of commits) {
    const texts = [commit.message, commit.id, ...commit.branches, ...commit.tags, JSON.stringify(commit.metadata)];
    commit.searched = texts.join("\n").toLowerCase();
  }

  const fold = find("#fold"), filter = find("#filter"), more = find("#more-commits");
  fold.checked = commits.length > FOLDED_FROM;
  let limit = MORE;

  const wanted = () => filter.value.trim().toLowerCase();
  const isFolded = ({run}) => !wanted() && fold.checked && run !== undefined && !run.open
    && run.commits.length >= SHORTEST_FOLD;
  const choose = () => wanted() ? commits.filter(commit => commit.searched.includes(wanted()))
    : commits.filter(commit => !isFolded(commit) || commit.run.commits[0] === commit);

  function row(commit) {
    const item = make("li", {"data-id": commit.id});
    if (isFolded(commit)) {
      const open = make("button", {type: "button"}, `⋯ ${many(commit.run.commits.length, "commit")}`);
      open.addEventListener("click", () => { commit.run.open = true; draw(); });
      const added = commit.run.commits.reduce((sum, one) => sum + Number(growth.get(one.id)?.new_bytes ?? 0), 0);
      item.append(make("span", {class: "message"}, open), make("span", {class: "size"}, added ? `+${size(added)}` : ""),
        clock(commit.flushed_at));
      return item;
    }
    const refs = refsOf(commit);
    item.append(...refs.slice(0, 4).map(([kind, name]) =>
      make("span", {class: `badge ${kind}`, title: kind}, clean(name))));
    if (refs.length > 4) item.append(make("span", {class: "badge note"}, `and ${count(refs.length - 4)} more`));
    if (commit.detached) item.append(make("span", {class: "badge note"}, "detached"));
    if (released.has(commit.id)) item.append(make("span", {class: "badge note"}, "expires"));
    item.classList.toggle("detached", commit.detached);
    item.classList.toggle("released", released.has(commit.id));
    const added = Number(growth.get(commit.id)?.new_bytes ?? 0);
    item.append(make("span", {class: "message"}, firstLine(commit.message)),
      make("span", {class: "size"}, added ? `+${size(added)}` : ""),
      clock(commit.flushed_at));
    return item;
  }

  let drawn = null;
  async function draw() {
    const chosen = choose();
    const shown = chosen.slice(0, limit);
    const most = narrow.matches ? MOST_LANES_NARROW : MOST_LANES;
    for (const commit of commits) commit.lane = Math.min(commit.wanted_lane, most);
    const rows = new Map(chosen.map((commit, place) => [commit.id, place]));
    const lines = [];
    for (const [place, commit] of shown.entries()) {
      let parent = byId.get(commit.parent_id);
      for (let steps = 0; parent && !rows.has(parent.id) && steps < commits.length; steps += 1) {
        parent = byId.get(parent.parent_id);
      }
      if (parent && rows.has(parent.id) && rows.get(parent.id) > place) {
        const below = rows.get(parent.id);
        lines.push({from_lane: commit.lane, from_row: place, detached: commit.detached,
          to_lane: below < shown.length ? parent.lane : commit.lane, to_row: Math.min(below, shown.length)});
      }
    }
    const dots = shown.map((commit, place) =>
      ({lane: commit.lane, row: place, detached: commit.detached, folded: isFolded(commit)}));
    const width = LANE * (1 + dots.reduce((most, dot) => Math.max(most, dot.lane), 0)) + 6;
    find("#rows").replaceChildren(...shown.map(row));
    find("#commits").style.setProperty("--graph", `${width + 4}px`);
    find("#matches").textContent = wanted() ? `${count(chosen.length)} of ${many(commits.length, "commit")}` : "";
    more.hidden = shown.length === chosen.length;
    more.textContent = `Show more of ${count(chosen.length)} rows`;
    const surface = getComputedStyle(document.documentElement).getPropertyValue("--surface");
    drawn ??= embed(find("#graph"), "history", {}, spec => { spec.signals[2].value = surface; });
    const {view} = await drawn;
    view.data("lines", lines).data("dots", dots).width(width).height(ROW * shown.length);
    await view.runAsync();
  }

  fold.addEventListener("change", () => {
    for (const {run} of commits) if (run) run.open = false;
    limit = MORE;
    draw();
  });
  filter.addEventListener("input", () => { limit = MORE; draw(); });
  more.addEventListener("click", () => { limit += MORE; draw(); });
  narrow.addEventListener("change", draw);
  drawings.push(() => { drawn = null; return draw(); });
  explain(byId, growth);
  const section = find("#history");
  table(section, "Commits", commits, [
    text("id", "id", "id"), moment("time", "flushed_at"),
    ["new", one => Number(growth.get(one.id)?.new_bytes ?? 0), size, "number"],
    ["own", one => Number(growth.get(one.id)?.own_bytes ?? 0), size, "number"],
    ["all", one => Number(growth.get(one.id)?.bytes ?? 0), size, "number"],
    ["chunks changed", one => one.changes?.updated_chunks ?? null, value => value === "" ? "" : count(value), "number"],
    ["refs", one => [...one.branches, ...one.tags].join(", ")],
    ["message", one => one.message, firstLine],
  ]);
  source(section, "log");
  return draw();
}

/** Show the message, time and changes of the commit under the pointer. */
function explain(byId, growth) {
  const tip = find("#tip"), list = find("#rows");
  list.addEventListener("pointermove", event => {
    const commit = byId.get(event.target.closest("li")?.dataset.id);
    if (commit === undefined || event.target.tagName === "BUTTON") { tip.hidden = true; return; }
    const numbers = growth.get(commit.id);
    const changes = Object.entries(commit.changes ?? {}).filter(([, value]) => Number(value))
      .map(([name, value]) => `${count(value)} ${words(name)}`).join(", ");
    const refs = refsOf(commit);
    const lines = [
      refs.slice(0, 8).map(([kind, name]) => `${kind} ${clean(name)}`).join(", ")
        + (refs.length > 8 ? ` and ${count(refs.length - 8)} more` : ""),
      `${commit.id}, ${time(commit.flushed_at)}`,
      changes || (commit.changes === null ? "changes unknown" : "no changes"),
      numbers ? `${size(numbers.bytes)}, ${size(numbers.new_bytes)} of it new, ${size(numbers.own_bytes)} its own`
        : "detached: no branch or tag reaches it",
      ...Object.entries(commit.metadata).slice(0, 8).map(([key, value]) => clean(`${key}: ${JSON.stringify(value)}`)),
    ];
    tip.replaceChildren(make("div", {class: "message"}, cleanLines(commit.message).slice(0, 1000)),
      ...lines.filter(Boolean).map(line => make("div", {class: "muted"}, line)));
    tip.hidden = false;
    const above = event.clientY - tip.offsetHeight - 12, below = event.clientY + 18;
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 12))}px`;
    tip.style.top = `${below + tip.offsetHeight > innerHeight ? Math.max(8, above) : below}px`;
  });
  list.addEventListener("pointerleave", () => { tip.hidden = true; });
}

// The other sections

/** Draw a chart unless there is nothing to show. */
function chartOrNote(section, isThere, draw, note) {
  const target = section.querySelector(".chart");
  if (isThere) return draw(target);
  target.replaceWith(make("p", {class: "muted"}, note));
}

function drawGrowth() {
  const section = find("#growth");
  const byId = new Map(stats.snapshots.map(one => [one.id, one]));
  const at = one => Date.parse(drawable(one?.flushed_at));
  const [first, last] = [stats.snapshots.at(-1), stats.snapshots[0]].map(at);
  const step = one => Math.ceil(250 * (at(one) - first) / Math.max(1, last - first));
  let total = 0;
  const steps = new Map();  // a line under the pointer for each of at most 250 steps in time
  for (const one of [...stats.snapshots].reverse()) {
    const before = steps.get(step(one)) ?? {commits: 0, added: 0};
    const commits = before.commits + 1, added = before.added + Number(one.new_bytes);
    total += Number(one.new_bytes);
    steps.set(step(one), {commits, added, flushed_at: drawable(one.flushed_at), shown_at: time(one.flushed_at),
      shown_message: (commits > 1 ? `${count(commits)} commits, at last: ` : "") + firstLine(one.message).slice(0, 120),
      shown_new: size(added), shown_total: size(total)});
  }
  const snapshots = [...steps.values()];
  const growth = stats.growth.map(({id, path, new_bytes}) =>
    ({path: path === null ? null : clean(path), new_bytes,
      flushed_at: drawable(byId.get(id).flushed_at)}));
  if (growth.length) {
    // The last commit shows its bytes only if the area goes on after it.
    const end = new Date(last + (Math.floor((last - first) / 40) || 1000));
    growth.push({path: growth[0].path, new_bytes: 0, flushed_at: end.toISOString()});
  }
  const drawn = chartOrNote(section, growth.length,
    target => chart(target, "growth", {growth, snapshots}, inUnitOf(total)), "No commit has chunks.");
  table(section, "Growth by array", stats.growth, [
    ["time", one => byId.get(one.id).flushed_at, time, "time"], text("id", "id", "id"),
    ["array", one => one.path ?? "other arrays"], bytes("new", "new_bytes"),
  ]);
  source(section, "stats");
  return drawn;
}

function drawArrays() {
  const section = find("#arrays");
  const arrays = stats.arrays.map(one => ({...one, path: clean(one.path)}));
  const total = one => Number(one.native_bytes) + Number(one.inlined_bytes) + Number(one.virtual_bytes);
  const drawn = chartOrNote(section, arrays.some(one => total(one) > 0),
    target => chart(target, "arrays", {arrays}, spec => {
      const update = "containerSize()[0]";
      delete spec.width;
      spec.signals = [{name: "width", init: update, on: [{events: "window:resize", update}]}];
    }),
    "No array has chunks.");
  table(section, "Arrays", stats.arrays, [
    ["array", one => one.path || "(not in any array)"], ["all", total, size, "number"],
    bytes("native", "native_bytes"), bytes("inline", "inlined_bytes"), bytes("virtual", "virtual_bytes"),
    number("chunks", "num_chunks"),
  ]);
  table(section, "Containers of virtual chunks", stats.containers, [
    text("prefix", "url_prefix"), bytes("bytes", "bytes"), number("chunks", "num_chunks"),
    number("objects", "num_objects"), ["configured", one => one.configured ? "yes" : "no"],
  ]);
  source(section, "stats");
  return drawn;
}

function drawRefs() {
  const section = find("#refs");
  const ofKind = kind => one => ({...one, kind});
  const refs = [...stats.branches.map(ofKind("branch")), ...stats.tags.map(ofKind("tag"))];
  const shared = one => Number(one.bytes) - Number(one.own_bytes);
  const largest = [...refs].sort((a, b) => b.bytes - a.bytes || b.own_bytes - a.own_bytes).slice(0, 20).map(one => ({
    label: `${one.kind} ${clean(one.name)}`, bytes: one.bytes, own_bytes: one.own_bytes,
    shown_bytes: size(one.bytes), shown_own: size(one.own_bytes), shown_shared: size(shared(one)),
  }));
  const drawn = chartOrNote(section, largest.some(one => Number(one.bytes) > 0),
    target => chart(target, "refs", {refs: largest}, inUnitOf(largest[0].bytes, 26 * largest.length)), "No branch or tag has chunks.");
  if (refs.length > largest.length) {
    section.append(make("p", {class: "muted"}, `The ${largest.length} largest of ${count(refs.length)}.`));
  }
  table(section, "Branches and tags", refs, [
    text("kind", "kind"), text("name", "name"), bytes("all", "bytes"), bytes("own", "own_bytes"),
    ["shared", shared, size, "number"], number("chunks", "num_chunks"),
  ]);
  source(section, "stats");
  return drawn;
}

function drawOperations() {
  const section = find("#operations");
  section.hidden = opsLog === null;
  if (opsLog === null) return;
  const kinds = new Set(opsLog.updates.map(one => one.kind));
  const updates = opsLog.updates.map(({kind, updated_at}) => ({kind, updated_at: drawable(updated_at)}));
  const drawn = chartOrNote(section, updates.length,
    target => chart(target, "operations", {updates}, spec => { spec.height = 26 * kinds.size; }),
    "The ops log is empty.");
  if (opsLog.beyond_reach !== null) {
    section.append(make("p", {class: opsLog.beyond_reach.is_cleared ? "muted" : "warn"},
      `Older operations are gone or cannot be read: ${clean(opsLog.beyond_reach.reason)}`));
  }
  table(section, "Operations", opsLog.updates, [
    ["op", one => one.op, value => `@${value}`, "number"], moment("time", "updated_at"),
    ["kind", one => words(one.kind)], ["ref", one => one.branch ?? one.name ?? ""],
    ["snapshot", one => one.new_snap_id ?? one.target_snapshot_id ?? "", undefined, "id"],
    ["previous", one => one.previous_snapshot_id ?? "", undefined, "id"],
    ["can be undone", one => one.undoable ? "yes" : "no"],
  ]);
  if (report.at_op === null) source(section, "ops-log");
  return drawn;
}

function drawFreed() {
  const section = find("#freed"), tiles = section.querySelector(".tiles");
  section.hidden = expire === null && gc === null;
  if (section.hidden) return;
  const parts = [{label: "native chunks in use", bytes: stats.native_bytes}];
  if (expire !== null) {
    const freed = stats.could_free;
    tiles.append(tile("snapshots released by expire", count(expire.released_snapshots.length)),
      tile("snapshots kept", count(expire.kept_snapshots)),
      tile("more freed by gc after expire", size(freed.bytes)),
      tile("more chunks freed by gc after expire", count(freed.chunks)));
    parts.push({label: "more after expire", bytes: freed.bytes});
  }
  if (gc !== null) {
    const objects = gc.garbage.reduce((sum, one) => sum + one.count, 0);
    tiles.append(tile("freed by gc now", size(gc.bytes_deleted)), tile("objects deleted by gc now", count(objects)));
    parts.push({label: "gc now", bytes: gc.bytes_deleted});
  }
  for (const part of parts) part.shown = size(part.bytes);
  const largest = Math.max(...parts.map(part => Number(part.bytes)));
  const drawn = chartOrNote(section, largest > 0,
    target => chart(target, "freed", {parts}, inUnitOf(largest, 34 * parts.length)), "Nothing is in use or would be freed.");
  if (expire !== null) {
    const ofBranch = branch => one => ({...one, branch});
    const fates = [...expire.branches.flatMap(one => one.snapshots.map(ofBranch(one.branch))),
      ...expire.unreachable.map(ofBranch(""))];
    table(section, "Snapshots under the policy", fates, [
      text("id", "id", "id"), moment("time", "flushed_at"), text("branch", "branch"),
      ["fate", one => one.released ? "released" : "kept"], ["because of", one => one.reasons.join(", ")],
      ["message", one => one.message, firstLine],
    ]);
    source(section, "expire");
  }
  if (gc !== null) {
    const counts = [number("objects", "count"), bytes("bytes", "bytes")];
    table(section, "Garbage by kind", gc.garbage, [["kind", one => words(one.kind)], ...counts]);
    table(section, "Garbage by age", gc.by_age, [text("age", "age"), ...counts]);
    table(section, "The largest garbage", gc.largest,
      [text("object", "object"), bytes("bytes", "size"), moment("created", "created_at")]);
    source(section, "gc");
  }
  return drawn;
}

function drawFindings() {
  const section = find("#findings");
  section.hidden = validate === null;
  if (validate === null) return;
  section.querySelector(".tiles").append(
    tile(`at level ${validate.level}`, validate.ok ? "sound" : "damaged", validate.ok ? "good" : "bad"),
    tile(plural(validate.errors, "error"), count(validate.errors), validate.errors ? "bad" : "good"),
    tile(plural(validate.warnings, "warning"), count(validate.warnings), validate.warnings ? "warn" : "good"),
    ...Object.entries(validate.checked).filter(([, value]) => typeof value === "number" && value)
      .map(([name, value]) => tile(`${words(name)} checked`, count(value))));
  table(section, "Findings", validate.findings, [
    text("code", "code", "id"), text("severity", "severity"), text("object", "object"),
    text("problem", "title"), text("detail", "detail"),
  ]);
  section.querySelector("details")?.setAttribute("open", "");
  if (validate.findings_left_out) {
    section.append(make("p", {class: "muted"}, `${many(validate.findings_left_out, "more finding")} not listed.`));
  }
  source(section, "validate");
}

async function drawAll() {
  drawHead();
  const sections = [drawHistory, drawGrowth, drawArrays, drawRefs, drawOperations, drawFreed, drawFindings];
  await Promise.all(sections.map(draw => draw()));
  performance.mark("rendered");
  document.documentElement.dataset.rendered = "all";
}

dark.addEventListener("change", () => Promise.all([...drawings].map(draw => draw())));
drawAll();
})();
