// The inspector page. Updates arrive as server-sent events. The query of the event stream is the view: the
// server sends only its rows, and later only rows that have changed. All texts of the program are untrusted
// and only ever become text nodes.
"use strict";

const THEME_KEY = "weft-inspector-theme";
function storedTheme() {
  try {
    const theme = localStorage.getItem(THEME_KEY);
    return theme === "light" || theme === "dark" ? theme : "";
  } catch {
    return ""; // without storage, the colours are those of the system
  }
}
document.documentElement.dataset.theme = storedTheme(); // before the page is drawn

const LIMIT = 100;
const MINUTE_MS = 60000;
const RETRY_MS = 2000;
const SILENCE_MS = 5000;
const TYPING_MS = 200;
const TOGGLED_MAX = 300;
const SVG = "http://www.w3.org/2000/svg";
const numbers = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const $ = (id) => document.getElementById(id);

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function draw(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function duration(ms) {
  if (!(ms > 0)) return ms === 0 ? "0 s" : "";
  if (ms < 9950) return (ms / 1000).toFixed(1) + " s";
  if (ms < 119500) return Math.round(ms / 1000) + " s";
  if (ms < 7200000) return Math.round(ms / 60000) + " min";
  if (ms < 172800000) return Math.round(ms / 3600000) + " h";
  return Math.round(ms / 86400000) + " d";
}

function bytes(n) {
  if (n < 1024) return n + " B";
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let unit = -1;
  do n /= 1024; while (++unit < 3 && n >= 1023.5);
  return (n < 9.95 && unit > 0 ? n.toFixed(1) : Math.round(n)) + " " + units[unit];
}

const percent = (share) => (share / 100).toFixed(share >= 9950 ? 0 : 1) + " %";
const nameOf = (fiber) => fiber.name || (fiber.isMain ? "main" : "unnamed");

// The state of the page. The view is also in the address, so that a reload or a link shows it again.
const view = { mode: "tree", sort: "cpu", q: "", state: "", reason: "", cord: "", from: 0, toggled: new Set() };
const rows = new Map(); // key: { data, tr }
let order = [];
let points = [];
let cords = [];
let program = null;
let serverTime = 0;
let selected = "";
let focusedKey = "";
let stream = null;
let retry = 0;
let heardAt = 0;
let intervalMs = 1000;
let isPaused = false;
let expectsPage = false; // say the number of matches when the next update arrives

function say(text) {
  setText($("said"), text);
}

/* The connection. */

function queryOf(all) {
  const query = new URLSearchParams();
  for (const name of ["mode", "sort", "q", "state", "reason", "cord"]) {
    const isDefault = view[name] === "" || (name === "mode" && view.mode === "tree") || (name === "sort" && view.sort === "cpu");
    if (!isDefault) query.set(name, view[name]);
  }
  if (view.from > 0) query.set("from", view.from);
  if (all) query.set("limit", LIMIT);
  if (all && view.toggled.size) query.set("toggled", [...view.toggled].join("."));
  return query.toString();
}

function showLink(state, text) {
  $("link").className = state;
  setText($("link-text"), text);
}

function disconnect() {
  clearTimeout(retry);
  retry = 0;
  stream?.close();
  stream = null;
}

function connect() {
  disconnect();
  if (isPaused || document.hidden) return;
  const source = new EventSource("events?" + queryOf(true));
  stream = source;
  heardAt = Date.now();
  let isFirst = true;
  source.addEventListener("update", (event) => {
    if (source !== stream) return;
    heardAt = Date.now();
    if (!$("link").classList.contains("live")) say("Connected");
    receive(JSON.parse(event.data), isFirst);
    isFirst = false;
  });
  source.addEventListener("open", () => (isFirst = true));
  source.addEventListener("error", () => {
    if (source !== stream) return;
    if ($("link").classList.contains("live")) say("Connection lost");
    showLink("lost", "Reconnecting");
    if (source.readyState === EventSource.CLOSED) retry = setTimeout(connect, RETRY_MS);
  });
}

function watchSilence() {
  const silent = Date.now() - heardAt;
  if (stream && $("link").classList.contains("live") && silent > Math.max(SILENCE_MS, 3 * intervalMs))
    showLink("live lost", "No data for " + duration(silent));
}

// Show another view. Keep the rows until the first update arrives.
function changeView(changes, keepsPage) {
  Object.assign(view, changes);
  if (!keepsPage) view.from = 0;
  expectsPage = true;
  const query = queryOf(false);
  history.replaceState(null, "", query ? "?" + query : location.pathname);
  showView();
  if (!isPaused) connect();
}

function receive(update, isFirst) {
  serverTime = update.time;
  intervalMs = update.intervalMs;
  showLink("live", intervalMs > 1100 ? "Live, every " + duration(intervalMs) : "Live");
  if (update.program) showProgram(update.program);
  if (isFirst) {
    points = [];
    rows.forEach((row) => (row.isOld = true));
  }
  points = points.concat(update.points).filter((point) => point.at > serverTime - MINUTE_MS);
  if (update.cords) showCords(update.cords);
  if (update.reasons) showReasons(update.reasons);
  if (update.latency) showLatency(update.latency);
  if (update.advice) showAdvice(update.advice);
  showTiles(update.sums);
  showPlots();
  receiveRows(update);
  showPage(update);
  tick();
}

/* Summary and charts. */

const TILES = {
  fibers: ["Fibers", (s) => [numbers.format(s.fibers), "", `${numbers.format(s.waiting)} waiting`]],
  runnable: ["Runnable", (s) => [numbers.format(s.runnable), "", `at most ${numbers.format(s.runnableMax)} so far`]],
  switches: ["Switches", (s) => [compact.format(s.switchesPerS), "/s", `${compact.format(s.switches)} in total`]],
  cpu: ["CPU", (s) => [(s.cpu / 100).toFixed(1), "%", `of a core, ${s.cords} ${s.cords === 1 ? "cord" : "cords"}`]],
  stacks: ["Stacks in use", (s) => [...bytes(s.stackUsed).split(" "), `${bytes(s.stackBytes)} reserved, ${numbers.format(s.stacksCached)} cached`]],
  ops: ["Operations", (s) => [numbers.format(s.opsPending), "pending", `${compact.format(s.ops)} so far, ${numbers.format(s.timers)} timers`]],
};

function makeTiles() {
  for (const [id, [label]] of Object.entries(TILES)) {
    const tile = make("div", "tile");
    const value = make("p", "value");
    value.append(make("span", "", "–"), " ", make("small"));
    value.id = "tile-" + id;
    tile.append(make("p", "label", label), value, make("p", "note"));
    $("tiles").append(tile);
  }
}

function showTiles(sums) {
  for (const [id, [, format]] of Object.entries(TILES)) {
    const [value, unit, note] = format(sums);
    const box = $("tile-" + id);
    setText(box.firstChild, value);
    setText(box.lastChild, unit);
    setText(box.nextSibling, note);
  }
}

function showProgram(about) {
  program = about;
  setText($("title"), about.title);
  setText($("process"), "process " + about.pid);
  document.title = about.title + " · weft inspector";
  $("actions").hidden = !about.hasActions;
}

function niceTop(value, least) {
  let top = least;
  while (top < value) top *= String(top).startsWith("2") ? 2.5 : 2;
  return top;
}

const xOf = (at) => (100 * (at - serverTime + MINUTE_MS)) / MINUTE_MS;

function beginPlot(svg) {
  const parts = [25, 50, 75].map((y) => draw("line", { class: "grid-line", x1: 0, x2: 100, y1: y, y2: y }));
  for (const point of points)
    if (point.stalled) parts.push(draw("rect", { class: "stalled", x: (xOf(point.at) - 1.7).toFixed(2), y: 0, width: 1.7, height: 100 }));
  svg.setAttribute("viewBox", "0 0 100 100");
  return parts;
}

// Stack the CPU shares of the cords.
function showCpuPlot() {
  const parts = beginPlot($("cpu-plot"));
  const threads = cords.slice(0, 8).map((cord) => String(cord.thread));
  const total = (point) => threads.reduce((sum, thread) => sum + (point.cords[thread] ?? 0), 0);
  const top = niceTop(Math.max(0, ...points.map(total)), 1000);
  let base = points.map(() => 0);
  threads.forEach((thread, n) => {
    const sums = points.map((point, p) => base[p] + (point.cords[thread] ?? 0));
    const at = (heights, p) => `${xOf(points[p].at).toFixed(2)} ${(100 - (100 * heights[p]) / top).toFixed(2)}`;
    const upper = points.map((_, p) => at(sums, p));
    const lower = points.map((_, p) => at(base, p)).reverse();
    if (points.length > 1) parts.push(draw("path", { class: "f" + n, d: "M" + upper.concat(lower).join("L") + "Z" }));
    base = sums;
  });
  $("cpu-plot").replaceChildren(...parts);
  setText($("cpu-scale"), percent(top));
  const text = cords.slice(0, 8).map((cord, n) => [make("i", "b" + n), `${cord.name} ${percent(cord.cpu)}`]);
  $("cpu-text").replaceChildren(...text.flat());
}

function showSwitchesPlot() {
  const parts = beginPlot($("switches-plot"));
  const values = points.map((point) => point.switchesPerS);
  const most = Math.max(0, ...values);
  const top = niceTop(most, 10);
  if (points.length > 1) {
    const line = "M" + points.map((point, p) => `${xOf(point.at).toFixed(2)} ${(99 - (97 * values[p]) / top).toFixed(2)}`).join("L");
    parts.push(draw("path", { class: "area", d: `${line}V100H${xOf(points[0].at).toFixed(2)}Z` }), draw("path", { class: "curve", d: line }));
  }
  $("switches-plot").replaceChildren(...parts);
  setText($("switches-scale"), compact.format(top) + " /s");
  const runnable = Math.max(0, ...points.map((point) => point.runnable));
  if (points.length)
    setText($("switches-text"), `now ${numbers.format(values.at(-1))}, at most ${numbers.format(most)}; at most ${numbers.format(runnable)} runnable`);
}

function showPlots() {
  showCpuPlot();
  showSwitchesPlot();
}

function nanoseconds(ns) {
  if (ns === 0) return "more";
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) if (ns >= size) return +(ns / size).toPrecision(2) + " " + unit;
  return ns + " ns";
}

function latencyBar([bound, count], n, width, most) {
  const height = count ? Math.max(1.5, (88 * count) / most) : 0;
  const bar = draw("rect", { class: "column", x: (n * width + width * 0.08).toFixed(2), y: (100 - height).toFixed(2), width: (width * 0.84).toFixed(2), height: height.toFixed(2) });
  const title = draw("title", {});
  title.textContent = `up to ${nanoseconds(bound)}: ${numbers.format(count)}`;
  bar.append(title);
  return bar;
}

// latency: [[upper bound in ns, or 0, and number of samples], ...]
function showLatency(latency) {
  const counts = latency.map(([, count]) => count);
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (!all) return;
  const first = counts.findIndex((count) => count > 0);
  const shown = latency.slice(Math.max(0, first - 1), counts.findLastIndex((count) => count > 0) + 2);
  const most = Math.max(...counts);
  $("latency-plot").setAttribute("viewBox", "0 0 100 100");
  $("latency-plot").replaceChildren(...shown.map((bucket, n) => latencyBar(bucket, n, 100 / shown.length, most)));
  setText($("latency-scale"), `${nanoseconds(shown[0][0])} to ${nanoseconds(shown.at(-1)[0])}`);
  const quantile = (share) => {
    let sum = 0;
    return nanoseconds(latency.find(([, count]) => (sum += count) >= share * all)[0]);
  };
  setText($("latency-text"), `half within ${quantile(0.5)}, 99 % within ${quantile(0.99)}; ${compact.format(all)} samples`);
}

function fillTable(id, list, key, fill) {
  const body = $(id).tBodies[0];
  list.forEach((item, n) => {
    let tr = body.rows[n];
    if (!tr || tr.dataset.key !== key(item)) {
      const found = [...body.rows].find((row) => row.dataset.key === key(item));
      tr = found ?? make("tr");
      tr.dataset.key = key(item);
      body.insertBefore(tr, body.rows[n] ?? null);
    }
    fill(tr, item);
  });
  while (body.rows.length > list.length) body.lastChild.remove();
}

function cell(tr, n, className, text) {
  while (tr.cells.length <= n) tr.append(make("td"));
  const td = tr.cells[n];
  if (td.className !== className) td.className = className;
  if (text !== undefined) setText(td, text);
  return td;
}

function fillOptions(id, first, list, value) {
  const select = $(id);
  const wanted = [["", first], ...list];
  if (value && !wanted.some(([key]) => key === value)) wanted.push([value, value]);
  const now = [...select.options].map((option) => option.value + "\n" + option.text).join("\t");
  if (now !== wanted.map((pair) => pair.join("\n")).join("\t") && document.activeElement !== select)
    select.replaceChildren(...wanted.map(([key, text]) => new Option(text, key)));
  if (select.value !== value) select.value = value;
}

function showCords(list) {
  cords = list;
  fillOptions("cord", "All cords", list.map((cord) => [String(cord.thread), cord.name || String(cord.thread)]), view.cord);
  fillTable("cords", list, (cord) => cord.id, (tr, cord) => {
    const td = cell(tr, 0, "");
    if (!td.firstChild) {
      const button = make("button");
      button.addEventListener("click", () => changeView({ cord: String(cord.thread) }));
      td.append(button, " ", make("span", "muted"));
    }
    setText(td.firstChild, cord.name || String(cord.thread));
    setText(td.lastChild, cord.backend);
    cell(tr, 1, "number", numbers.format(cord.fibers));
    cell(tr, 2, "number", cord.stalledMs === undefined ? compact.format(cord.switchesPerS) : "stalled").classList.toggle("bad", cord.stalledMs !== undefined);
    const cpu = cell(tr, 3, "number meter");
    if (!cpu.firstChild) cpu.append(make("span"));
    setText(cpu.firstChild, percent(cord.cpu));
    cpu.style.setProperty("--part", Math.min(1, cord.cpu / 10000));
  });
  const stalled = list.filter((cord) => cord.stalledMs !== undefined);
  const warning = stalled.map((cord) => `Cord ${cord.name} has not switched for ${duration(cord.stalledMs)}.`).join(" ");
  $("warning").hidden = !warning;
  setText($("warning"), warning);
}

function showReasons(list) {
  fillOptions("reason", "All waits", list.map(({ reason }) => [reason, reason]), view.reason);
  const most = Math.max(1, ...list.map(({ count }) => count));
  fillTable("reasons", list, ({ reason }) => reason, (tr, { reason, count, since, fiber }) => {
    const td = cell(tr, 0, "");
    if (!td.firstChild) {
      const button = make("button", "", reason);
      button.addEventListener("click", () => changeView({ reason }));
      td.append(button);
    }
    const fibers = cell(tr, 1, "number meter");
    if (!fibers.firstChild) fibers.append(make("span"));
    setText(fibers.firstChild, numbers.format(count));
    fibers.style.setProperty("--part", count / most);
    const longest = cell(tr, 2, "number");
    if (!longest.firstChild) {
      longest.append(make("button"));
      longest.firstChild.addEventListener("click", () => showFiber(tr.dataset.fiber, true));
    }
    tr.dataset.fiber = fiber;
    tr.dataset.since = since;
    longest.firstChild.setAttribute("aria-label", "Show the fiber that waits longest: " + reason);
  });
}

function showAdvice(list) {
  $("advice").hidden = !list.length;
  fillTable("advice-table", list, ({ site, fn }) => site + "\n" + fn, (tr, { site, fn, fibers, stack, used, suggested }) => {
    cell(tr, 0, "mono", fn || site).title = site;
    cell(tr, 1, "number", numbers.format(fibers));
    cell(tr, 2, "number", `${bytes(used)} / ${bytes(stack)}`);
    cell(tr, 3, "number", bytes(suggested));
  });
}

/* The tree and the list. */

function makeRow(key) {
  const tr = make("tr");
  tr.setAttribute("role", "row");
  tr.tabIndex = -1;
  tr.dataset.key = key;
  for (const name of ["", "c-fn mono", "", "number", "number meter c-cpu", "number c-switches", "number meter c-stack"]) {
    const td = make("td", name);
    td.setAttribute("role", "gridcell");
    tr.append(td);
  }
  const label = make("div", "label-cell");
  const twist = make("button", "twist");
  twist.tabIndex = -1;
  twist.setAttribute("aria-hidden", "true"); // the row has aria-expanded
  label.append(twist, make("span", "name"), make("span", "count"), make("span", "id"));
  tr.cells[0].append(label);
  tr.cells[2].append(make("span", "pill"));
  tr.cells[4].append(make("span"));
  tr.cells[6].append(make("span"));
  twist.addEventListener("click", (event) => {
    event.stopPropagation();
    toggle(key);
  });
  return tr;
}

function fillRow(tr, row) {
  const [twist, name, count, id] = tr.cells[0].firstChild.children;
  tr.className = row.context ? "context" : "";
  tr.setAttribute("aria-level", row.level);
  if (row.open === undefined) tr.removeAttribute("aria-expanded");
  else tr.setAttribute("aria-expanded", row.open);
  tr.cells[0].firstChild.style.setProperty("--depth", Math.min(row.level - 1, 12));
  setText(twist, row.open === undefined ? "" : row.open ? "▼" : "▶");
  twist.style.visibility = row.open === undefined ? "hidden" : "visible";
  count.hidden = !row.count;
  setText(count, row.count ? "× " + numbers.format(row.count) : "");
  setText(name, row.name || (row.count ? "unnamed" : row.level === 1 && !row.fn ? "main" : row.fn || "unnamed"));
  setText(id, row.id ? "#" + row.id : "");
  tr.cells[0].title = row.id ? "#" + row.id : "";
  setText(tr.cells[1], row.fn);
  tr.cells[1].title = row.fn;
  const pill = tr.cells[2].firstChild;
  pill.className = "pill " + row.state;
  setText(pill, row.wait || row.state);
  pill.title = row.holder ? `${row.wait}: fiber #${row.holder}` : "";
  setText(tr.cells[4].firstChild, row.cpu ? percent(row.cpu) : "");
  tr.cells[4].classList.toggle("none", !row.cpu);
  tr.cells[4].style.setProperty("--part", Math.min(1, row.cpu / 10000));
  setText(tr.cells[5], compact.format(row.switches));
  tr.cells[5].title = numbers.format(row.switches);
  tr.cells[6].classList.toggle("none", !row.stack);
  setText(tr.cells[6].firstChild, row.stack ? `${bytes(row.used)} / ${bytes(row.stack)}` : "");
  tr.cells[6].style.setProperty("--part", row.stack ? row.used / row.stack : 0);
}

function receiveRows(update) {
  for (const data of update.rows) {
    const row = rows.get(data.key) ?? { tr: makeRow(data.key) };
    row.data = data;
    row.isOld = false;
    rows.set(data.key, row);
    fillRow(row.tr, data);
  }
  if (!update.order) return;
  order = update.order;
  const wanted = new Set(order);
  for (const [key, { tr }] of rows)
    if (!wanted.has(key)) {
      tr.remove();
      rows.delete(key);
    }
  const body = $("rows");
  order.forEach((key, n) => {
    const { tr } = rows.get(key);
    tr.setAttribute("aria-rowindex", update.from + n + 2);
    if (body.rows[n] !== tr) body.insertBefore(tr, body.rows[n] ?? null);
  });
  $("nothing").hidden = order.length > 0;
  setTabStop();
  markSelected();
}

function showPage({ from, total, matching, all }) {
  view.from = from;
  view.total = total;
  const last = from + order.length;
  $("grid").setAttribute("aria-rowcount", total + 1);
  setText($("range"), total ? `${numbers.format(from + 1)}–${numbers.format(last)} of ${numbers.format(total)} rows` : "");
  setText($("shown"), matching === all ? `${numbers.format(all)} fibers` : `${numbers.format(matching)} of ${numbers.format(all)} fibers`);
  $("first").disabled = $("previous").disabled = from === 0;
  $("next").disabled = $("last").disabled = last >= total;
  if (expectsPage) say(`${numbers.format(matching)} fibers match`);
  expectsPage = false;
}

// Show the durations of all waits.
function tick() {
  for (const key of order) {
    const { data, tr } = rows.get(key);
    setText(tr.cells[3], data.since ? duration(Math.max(0, serverTime - data.since)) : "");
  }
  for (const tr of $("reasons").tBodies[0].rows) setText(tr.cells[2].firstChild, duration(Math.max(0, serverTime - tr.dataset.since)));
}

function toggle(key) {
  if (view.toggled.has(key)) view.toggled.delete(key);
  else if (view.toggled.size < TOGGLED_MAX) view.toggled.add(key);
  changeView({}, true);
}

function setTabStop() {
  if (!rows.has(focusedKey)) focusedKey = order[0] ?? "";
  for (const [key, { tr }] of rows) tr.tabIndex = key === focusedKey ? 0 : -1;
}

function focusRow(n) {
  const key = order[Math.max(0, Math.min(order.length - 1, n))];
  if (!key) return;
  focusedKey = key;
  setTabStop();
  rows.get(key).tr.focus();
}

function page(step) {
  const from = Math.max(0, Math.min(view.from + step, Math.floor(Math.max(0, view.total - 1) / LIMIT) * LIMIT));
  if (from !== view.from) changeView({ from }, true);
}

function parentOf(n) {
  const level = rows.get(order[n]).data.level;
  let up = n - 1;
  while (up >= 0 && rows.get(order[up]).data.level >= level) up--;
  return up;
}

function activate(row) {
  if (row.id) showFiber(row.id, true);
  else toggle(row.key);
}

function pressKey(event) {
  const n = order.indexOf(event.target.dataset?.key);
  if (n < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
  const row = rows.get(order[n]).data;
  switch (event.key) {
    case "ArrowDown": focusRow(n + 1); break;
    case "ArrowUp": focusRow(n - 1); break;
    case "Home": focusRow(0); break;
    case "End": focusRow(order.length - 1); break;
    case "PageDown": page(LIMIT); break;
    case "PageUp": page(-LIMIT); break;
    case "ArrowRight":
      if (row.open === false) toggle(row.key);
      else if (row.open) focusRow(n + 1);
      break;
    case "ArrowLeft":
      if (row.open) toggle(row.key);
      else if (parentOf(n) >= 0) focusRow(parentOf(n));
      break;
    case "Enter": case " ": activate(row); break;
    default: return;
  }
  event.preventDefault();
}

/* Details of a fiber. */

function markSelected() {
  for (const { data, tr } of rows.values())
    if (data.id) tr.setAttribute("aria-selected", data.id === selected);
}

function fiberLink({ id, name }) {
  const button = make("button", "link", (name ? name + " " : "") + "#" + id);
  button.type = "button";
  button.addEventListener("click", () => showFiber(id, true));
  return button;
}

function place({ file, line, module, offset }) {
  if (file) return `${file}:${line}`;
  return module ? `${module.split("/").at(-1)}+${offset}` : "";
}

function factsOf(fiber) {
  const facts = [["Id", "#" + fiber.id]];
  if (fiber.fn) facts.push(["Function", [fiber.fn.function || fiber.fn.address, place(fiber.fn)].filter(Boolean).join(", ")]);
  facts.push(["State", fiber.state + (fiber.isParked ? ", parked" : "") + (fiber.isDaemon ? ", daemon" : "")]);
  if (fiber.wait) facts.push(["Waiting for", fiber.wait + (fiber.object ? " " + fiber.object : "") + ", for " + duration(fiber.waitingMs)]);
  if (fiber.holder) facts.push(["Blocked by", fiberLink(fiber.holder)]);
  if (fiber.fd !== undefined) facts.push(["Descriptor", String(fiber.fd)]);
  if (fiber.local || fiber.peer) facts.push(["Socket", [fiber.local, fiber.peer].filter(Boolean).join(" ↔ ")]);
  if (fiber.deadlineMs !== undefined) facts.push(["Deadline", "in " + duration(Math.max(0, fiber.deadlineMs))]);
  if (fiber.parent) facts.push(["Parent", fiberLink(fiber.parent)]);
  if (fiber.children) facts.push(["Children", numbers.format(fiber.children)]);
  if (fiber.spunAt) facts.push(["Created in", [fiber.spunAt.function || fiber.spunAt.address, place(fiber.spunAt)].filter(Boolean).join(", ")]);
  facts.push(["Cord", `${fiber.cord}, thread ${fiber.thread}`]);
  if (fiber.stack) facts.push(["Stack", `${bytes(fiber.used)} of ${bytes(fiber.stack)}`]);
  facts.push(["CPU", `${(fiber.cpuUs / 1000).toFixed(1)} ms, now ${percent(fiber.cpu)}`], ["Switches", numbers.format(fiber.switches)]);
  return facts;
}

function frameItem(frame) {
  const li = make("li");
  const text = make("div");
  text.append(make("span", "function mono", frame.function || frame.address), make("span", "place mono", place(frame)));
  li.append(text);
  return li;
}

function fillDetails(fiber) {
  const list = make("dl");
  for (const [name, value] of factsOf(fiber)) {
    const dd = make("dd");
    dd.append(value);
    list.append(make("dt", "", name), dd);
  }
  const frames = make("ol", "frames");
  frames.tabIndex = 0;
  frames.setAttribute("aria-label", "Backtrace, innermost function first");
  frames.append(...fiber.frames.map(frameItem));
  const none = make("p", "muted", fiber.state === "running" ? "The fiber runs: no backtrace." : "The fiber has not run yet.");
  $("details-body").replaceChildren(list, make("h3", "", "Backtrace"), fiber.frames.length ? frames : none);
}

async function showFiber(id, movesFocus) {
  selected = id;
  markSelected();
  $("details").hidden = false;
  setText($("action-text"), "");
  try {
    const reply = await fetch("fiber?id=" + encodeURIComponent(id));
    const text = await reply.text();
    if (selected !== id) return;
    if (reply.ok) {
      const fiber = JSON.parse(text);
      setText($("h-details"), nameOf(fiber));
      fillDetails(fiber);
    } else {
      setText($("h-details"), "Fiber #" + id);
      $("details-body").replaceChildren(make("p", "muted", text));
    }
  } catch {
    $("details-body").replaceChildren(make("p", "muted", "The program does not answer."));
  }
  if (movesFocus) $("h-details").focus();
}

function closeDetails() {
  selected = "";
  $("details").hidden = true;
  markSelected();
  rows.get(focusedKey)?.tr.focus();
}

async function act(action) {
  const output = $("action-text");
  output.textContent = "";
  try {
    const reply = await fetch(action, {
      method: "POST",
      headers: { Authorization: "Bearer " + $("token").value },
      body: new URLSearchParams({ id: selected }),
    });
    output.textContent = reply.status === 401 ? "The token is wrong." : await reply.text();
  } catch {
    output.textContent = "The program does not answer.";
  }
}

function confirmStop() {
  setText($("confirm-text"), `Stop fiber ${$("h-details").textContent} #${selected}?`);
  $("confirm").returnValue = "no";
  $("confirm").showModal();
  $("confirm-no").focus();
}

/* Controls. */

function showView() {
  const hasFilter = Boolean(view.q || view.state || view.reason || view.cord);
  for (const name of ["q", "state", "reason", "cord"])
    if ($(name).value !== view[name] && document.activeElement !== $("q")) $(name).value = view[name];
  $("clear").disabled = !hasFilter;
  $("mode-tree").setAttribute("aria-pressed", view.mode === "tree");
  $("mode-list").setAttribute("aria-pressed", view.mode === "list");
  for (const button of document.querySelectorAll("[data-sort]")) {
    const th = button.parentElement;
    if (view.mode === "list" && button.dataset.sort === view.sort) th.setAttribute("aria-sort", view.sort === "name" ? "ascending" : "descending");
    else th.removeAttribute("aria-sort");
  }
}

function readAddress() {
  const query = new URLSearchParams(location.search);
  for (const name of ["mode", "sort", "q", "state", "reason", "cord"]) view[name] = query.get(name) ?? view[name];
  view.from = Number.parseInt(query.get("from") ?? "0", 10) || 0;
  fillOptions("reason", "All waits", [], view.reason);
  fillOptions("cord", "All cords", [], view.cord);
  for (const name of ["q", "state"]) $(name).value = view[name];
}

function togglePause() {
  isPaused = !isPaused;
  $("pause").setAttribute("aria-pressed", isPaused);
  setText($("pause"), isPaused ? "Resume" : "Pause");
  if (isPaused) {
    disconnect();
    showLink("paused", "Paused");
  } else {
    connect();
  }
}

function changeTheme() {
  const themes = ["", "light", "dark"];
  const theme = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % 3];
  document.documentElement.dataset.theme = theme;
  setText($("theme"), "Colours: " + (theme || "system"));
  try {
    localStorage.setItem(THEME_KEY, theme);
  } catch {
    // see storedTheme
  }
}

function listen() {
  let typing = 0;
  $("q").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => changeView({ q: $("q").value.trim() }), TYPING_MS);
  });
  for (const name of ["state", "reason", "cord"]) $(name).addEventListener("change", () => changeView({ [name]: $(name).value }));
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("reset", () => changeView({ q: "", state: "", reason: "", cord: "" }));
  $("mode-tree").addEventListener("click", () => changeView({ mode: "tree" }));
  $("mode-list").addEventListener("click", () => changeView({ mode: "list" }));
  for (const button of document.querySelectorAll("[data-sort]"))
    button.addEventListener("click", () => changeView({ mode: "list", sort: button.dataset.sort }));
  $("first").addEventListener("click", () => page(-view.total));
  $("previous").addEventListener("click", () => page(-LIMIT));
  $("next").addEventListener("click", () => page(LIMIT));
  $("last").addEventListener("click", () => page(view.total));
  $("rows").addEventListener("keydown", pressKey);
  $("rows").addEventListener("focusin", (event) => {
    focusedKey = event.target.closest("tr").dataset.key;
    setTabStop();
  });
  $("rows").addEventListener("click", (event) => {
    const row = rows.get(event.target.closest("tr")?.dataset.key)?.data;
    if (row) activate(row);
  });
  $("pause").addEventListener("click", togglePause);
  $("theme").addEventListener("click", changeTheme);
  $("close").addEventListener("click", closeDetails);
  $("refresh").addEventListener("click", () => showFiber(selected, false));
  $("stop").addEventListener("click", confirmStop);
  $("confirm").addEventListener("close", () => $("confirm").returnValue === "yes" && act("stop"));
  $("actions").addEventListener("submit", (event) => {
    event.preventDefault();
    act("dump");
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      $("q").focus();
    } else if (event.key === "Escape" && !$("details").hidden && !$("confirm").open && !isTyping) {
      closeDetails();
    }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) disconnect();
    else if (!isPaused) connect();
  });
}

document.addEventListener("DOMContentLoaded", () => {
  makeTiles();
  readAddress();
  showView();
  listen();
  setText($("theme"), "Colours: " + (storedTheme() || "system"));
  setInterval(watchSilence, 1000);
  connect();
});
