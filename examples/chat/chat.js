// The page: rooms, the conversation, and what the user does. connection.js talks to the server.

import { CLOSE, Connection } from "./connection.js";
import { MessageList } from "./messages.js";
import { make, paintAvatar, paintPeople } from "./people.js";
import { Pulse } from "./pulse.js";

const TYPING_MS = 2500; // between two announcements that the user types
const TYPING_SHOWN_MS = 5000;

const $ = (id) => document.getElementById(id);
const text = $("text");
const encoder = new TextEncoder();

const rooms = new Map(); // by name
let current = null;
let epoch = "";
let textMax = 2000;
let process = ""; // of a cluster: the name of the process that serves this page
const typists = new Map(); // name: timer
let typingSentAt = 0;

const pulse = new Pulse($("pulse"));
const list = new MessageList($("log"), $("messages"), $("empty"), {
  retry: (said) => say(said),
  discard: () => text.focus(),
  seen: () => markRead(),
});
const connection = new Connection({
  online,
  offline: (ms) => showState(`Connection lost. Trying again in ${Math.max(1, Math.round(ms / 1000))} s. Your messages wait.`),
  closed,
  message: (message) => handlers[message.t]?.(message),
  roundTrip: (ms) => pulse.roundTrip(ms),
  refused: (entry, why) => list.fail(entry, why),
});

// Rooms

function roomOf(name) {
  let room = rooms.get(name);
  if (!room) {
    room = { name, topic: "", last: 0, read: null, people: 0, failures: 0, owner: "", messages: [], here: [] };
    rooms.set(name, room);
  }
  return room;
}

function unreadOf(room) {
  return room.read === null ? 0 : Math.max(0, room.last - room.read);
}

function updateRooms(descriptions) {
  for (const { name, topic, last, people, failures, owner } of descriptions) {
    const room = roomOf(name);
    Object.assign(room, { topic, people, failures, last: Math.max(last, room.last) });
    updateOwner(room, owner ?? "");
    if (room.read === null) room.read = last; // messages before the first visit are not news
  }
  paintRooms();
}

// A room of a cluster has an owner, except while another process takes it over.
function updateOwner(room, owner) {
  room.isMoving = owner === "";
  if (owner === "" || owner === room.owner) return;
  if (room.owner !== "" && room === current) notice(`The room has moved from ${room.owner} to ${owner}. Nothing is lost.`);
  room.owner = owner;
}

function notice(message) {
  const wasAtEnd = list.isAtEnd();
  list.notice(message);
  if (wasAtEnd) list.scrollToEnd();
}

function paintRooms() {
  const items = $("rooms");
  for (const room of rooms.values()) {
    room.item ??= makeRoomItem(room, items);
    const unread = unreadOf(room);
    const { button, here, badge } = room.parts;
    button.classList.toggle("unread", unread > 0);
    if (room === current) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
    here.textContent = room.people > 0 ? String(room.people) : "";
    badge.hidden = unread === 0;
    badge.textContent = unread > 99 ? "99+" : String(unread);
    const people = room.people === 1 ? "1 person" : `${room.people} people`;
    button.setAttribute("aria-label", `${room.name}, ${people}` + (unread > 0 ? `, ${unread} unread` : ""));
  }
  paintHead();
}

function makeRoomItem(room, items) {
  const item = make("li");
  const button = make("button");
  button.type = "button";
  const here = make("span", "here");
  const badge = make("span", "badge");
  button.append(make("span", "hash", "#"), make("span", "label", room.name), here, badge);
  button.onclick = () => {
    go(room.name);
    closePanels();
    if (matchMedia("(pointer: fine)").matches) text.focus();
  };
  item.append(button);
  items.append(item);
  room.parts = { button, here, badge };
  return item;
}

function paintHead() {
  if (!current) return;
  $("room-title").textContent = "# " + current.name;
  $("topic").textContent = current.topic || "A room that somebody has made.";
  $("text-label").textContent = "Message to " + current.name;
  text.placeholder = "Message #" + current.name;
  $("log").setAttribute("aria-label", "Messages in " + current.name);
  const failures = $("failures");
  if (failures.textContent !== String(current.failures)) failures.textContent = current.failures;
  paintPlace();
  $("people-count").textContent = current.here.length || "";
  $("open-details").setAttribute("aria-label", `People and pulse, ${current.here.length} here`);
  const unread = [...rooms.values()].reduce((sum, room) => sum + unreadOf(room), 0);
  const elsewhere = unread - unreadOf(current);
  $("menu-unread").hidden = elsewhere === 0;
  $("open-rooms").setAttribute("aria-label", elsewhere > 0 ? `Rooms, ${elsewhere} unread` : "Rooms");
  document.title = (unread > 0 ? `(${unread}) ` : "") + `#${current.name} · weft chat`;
}

// In a cluster, show the processes of the room and of the user.
function paintPlace() {
  const owner = current.isMoving ? "moving …" : current.owner;
  $("place").hidden = $("where").hidden = process === "";
  $("place").textContent = `room: ${owner} · you: ${process}`;
  if ($("owner").textContent !== owner) $("owner").textContent = owner;
  if ($("process").textContent !== process) $("process").textContent = process;
}

function go(name) {
  if (current?.name === name) return;
  if (current) sendTyping(false);
  current = roomOf(name);
  if (location.hash !== "#" + name) history.replaceState(null, "", "#" + name);
  clearTypists();
  const firstUnread = unreadOf(current) > 0 ? current.read + 1 : -1;
  current.divideAt = firstUnread;
  showMessages();
  paintPeople($("people"), current.here, connection.name);
  join();
  markRead();
  paintRooms();
}

function showMessages() {
  const waiting = connection.outbox.filter((entry) => entry.room === current.name);
  list.show(current.messages, waiting, current.divideAt);
}

function join() {
  const since = current.messages.at(-1)?.seq ?? 0;
  connection.send({ t: "join", room: current.name, epoch, since });
}

function markRead() {
  if (!current || document.hidden || !list.isAtEnd()) return;
  const had = unreadOf(current);
  current.read = Math.max(current.read ?? 0, current.last);
  $("jump").hidden = true;
  if (had > 0) paintRooms();
}

// What the server sends

function online(welcome) {
  textMax = welcome.textMax;
  process = welcome.process ?? "";
  if (epoch && epoch !== welcome.epoch) {
    // The server was restarted, and has forgotten all messages.
    for (const room of rooms.values()) Object.assign(room, { messages: [], last: 0, read: 0 });
    if (current) showMessages();
  }
  epoch = welcome.epoch;
  $("state").hidden = true;
  updateRooms(welcome.rooms);
  if (current) join();
  else go(roomFromAddress() ?? welcome.rooms[0].name);
}

function roomFromAddress() {
  const name = decodeURIComponent(location.hash.slice(1));
  return /^[a-z0-9]([a-z0-9-]{0,22}[a-z0-9])?$/.test(name) ? name : null;
}

// Add a message that is not there yet. Returns whether it was new. A confirmation from a room that
// the user has left can be ahead of messages that the page does not have: join() gets them later.
function store(room, message, isHistory) {
  const last = room.messages.at(-1)?.seq ?? 0;
  if (message.own !== undefined) connection.settle(message.own);
  if (message.seq <= last || (!isHistory && message.seq !== last + 1)) return false;
  room.messages.push(message);
  room.last = Math.max(room.last, message.seq);
  if (message.own !== undefined) room.read = Math.max(room.read ?? 0, message.seq);
  return true;
}

const handlers = {
  rooms: ({ rooms: descriptions }) => updateRooms(descriptions),

  pulse(beat) {
    updateRooms(beat.rooms);
    pulse.beat(beat);
    markRead();
  },

  joined({ room: name, messages, complete, failures }) {
    const room = roomOf(name);
    room.failures = failures;
    const wasEmpty = room.messages.length === 0;
    if (!complete) room.messages = [];
    const fresh = messages.filter((message) => store(room, message, true));
    room.read ??= room.last;
    if (room !== current) return;
    if (wasEmpty || !complete) showMessages();
    else fresh.forEach((message) => showMessage(message));
    markRead();
    paintRooms();
  },

  said({ room: name, message }) {
    const room = roomOf(name);
    const isNew = store(room, message);
    if (room === current) {
      if (isNew) showMessage(message);
      else if (message.own !== undefined) list.confirmOld(message.own);
      stopTyping(message.from);
    }
    paintRooms();
  },

  known: ({ id }) => {
    connection.settle(id);
    list.confirmOld(id);
  },

  refused({ room, id, why }) {
    const entry = connection.settle(id);
    if (entry) list.fail(entry, why);
    else showState(`#${room}: ${why}.`, true);
  },

  here({ room: name, people }) {
    const room = roomOf(name);
    room.here = people;
    room.people = people.length;
    if (room !== current) return;
    for (const name of [...typists.keys()]) if (!people.includes(name)) stopTyping(name);
    paintPeople($("people"), people, connection.name);
    paintRooms();
  },

  typing({ room, from, on }) {
    if (room !== current?.name) return;
    stopTyping(from);
    if (on) typists.set(from, setTimeout(() => stopTyping(from), TYPING_SHOWN_MS));
    paintTypists();
  },

  failed({ room: name, failures, why }) {
    const room = roomOf(name);
    room.failures = failures;
    if (room !== current) return;
    notice(`The room failed (${why}). Its supervisor has restarted it, and nothing is lost.`);
    paintHead();
  },
};

function showMessage(message) {
  const isFollowing = list.isAtEnd() && !document.hidden;
  if (message.own === undefined && document.hidden && list.isAtEnd()) list.divide();
  list.add(message);
  if (isFollowing || message.own !== undefined) {
    list.scrollToEnd();
    markRead();
  } else {
    const count = unreadOf(current);
    $("jump-text").textContent = count === 1 ? "1 new message" : `${count} new messages`;
    $("jump").hidden = false;
  }
}

function closed(code) {
  if (code === CLOSE.REPLACED) {
    showState("This chat is open in another tab.");
    $("retry").textContent = "Use it here";
    document.querySelector("#state .spinner").hidden = true;
  } else {
    const isTaken = code === CLOSE.NAME_TAKEN;
    askName(isTaken ? `Somebody here is called ${connection.name}. Choose another name.` : "The server refuses this name.");
  }
}

function showState(message, isTransient) {
  $("state-text").textContent = message;
  $("retry").textContent = "Try now";
  $("retry").hidden = Boolean(isTransient);
  document.querySelector("#state .spinner").hidden = Boolean(isTransient);
  $("state").hidden = false;
  if (isTransient) setTimeout(() => connection.isOnline && ($("state").hidden = true), 5000);
}

// Typing

function clearTypists() {
  for (const timer of typists.values()) clearTimeout(timer);
  typists.clear();
  paintTypists();
}

function stopTyping(name) {
  clearTimeout(typists.get(name));
  if (typists.delete(name)) paintTypists();
}

function paintTypists() {
  const names = [...typists.keys()];
  const line = $("typing");
  line.replaceChildren();
  if (names.length === 0) return;
  const dots = make("span", "dots");
  dots.setAttribute("aria-hidden", "true");
  dots.append(make("i"), make("i"), make("i"));
  const verb = names.length === 1 ? " is typing" : " are typing";
  const who = names.length > 2 ? "Several people" : names.join(" and ");
  line.append(dots, who + verb);
}

function sendTyping(on) {
  if (!current || (!on && typingSentAt === 0)) return;
  if (on && Date.now() - typingSentAt < TYPING_MS) return;
  typingSentAt = on ? Date.now() : 0;
  connection.send({ t: "typing", room: current.name, on });
}

// What the user does

function say(said) {
  if (!current) return;
  list.undivide();
  typingSentAt = 0; // the message itself says that the user does not type any more
  list.addPending(connection.say(current.name, said));
  list.scrollToEnd();
}

function submit() {
  const said = text.value.trim();
  if (!said || $("too-long").textContent) return;
  text.value = "";
  fitText();
  say(said);
}

function fitText() {
  text.style.height = "auto";
  text.style.height = text.scrollHeight + 2 + "px";
  const excess = encoder.encode(text.value.trim()).length - textMax;
  $("too-long").textContent = excess > 0 ? `The message is too long by ${excess} bytes.` : "";
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
  text.focus();
});
text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});
text.addEventListener("input", () => {
  fitText();
  sendTyping(text.value.trim() !== "");
});
text.addEventListener("blur", () => sendTyping(false));
$("jump").addEventListener("click", () => {
  list.scrollToEnd();
  markRead();
  text.focus();
});
$("retry").addEventListener("click", () => connection.retryNow());
$("fail").addEventListener("click", () => current && connection.send({ t: "fail", room: current.name }));
$("new-room").addEventListener("submit", (event) => {
  event.preventDefault();
  const input = $("new-room-name");
  const name = input.value.trim().toLowerCase().replace(/[\s_]+/g, "-");
  const isName = /^[a-z0-9]([a-z0-9-]{0,22}[a-z0-9])?$/.test(name);
  $("new-room-error").textContent = isName ? "" : "Use letters a to z, digits and hyphens.";
  if (!isName) return;
  input.value = "";
  go(name);
  closePanels();
  text.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
    const names = [...rooms.keys()];
    const step = event.key === "ArrowDown" ? 1 : names.length - 1;
    event.preventDefault();
    go(names[(names.indexOf(current?.name) + step) % names.length]);
  } else if (event.key === "Escape") {
    closePanels();
  }
});
document.addEventListener("visibilitychange", () => markRead());
addEventListener("hashchange", () => roomFromAddress() && go(roomFromAddress()));

// Panels of narrow pages

function openPanel(panel, opener) {
  closePanels();
  panel.classList.add("open");
  opener.setAttribute("aria-expanded", "true");
  $("backdrop").hidden = false;
  $("main").inert = true;
  panel.opener = opener;
  panel.querySelector("[data-close]").focus();
}

function closePanels() {
  for (const panel of document.querySelectorAll(".panel.open")) {
    panel.classList.remove("open");
    $("main").inert = false;
    $("backdrop").hidden = true;
    panel.opener.setAttribute("aria-expanded", "false");
    panel.opener.focus();
  }
}

$("open-rooms").addEventListener("click", (event) => openPanel($("sidebar"), event.currentTarget));
$("open-details").addEventListener("click", (event) => openPanel($("details"), event.currentTarget));
$("backdrop").addEventListener("click", closePanels);
for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", closePanels);
matchMedia("(max-width: 1080px)").addEventListener("change", closePanels);
matchMedia("(max-width: 760px)").addEventListener("change", closePanels);

// Colours

const themes = ["system", "light", "dark"];
function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").setAttribute("aria-label", "Colours: " + (theme === "system" ? "as the system" : theme));
  remember("theme", theme);
}
$("theme").addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme ?? "system";
  setTheme(themes[(themes.indexOf(theme) + 1) % themes.length]);
});
setTheme(document.documentElement.dataset.theme ?? "system");

// The name

function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The page works without storage.
  }
}

function remembered(key) {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

function askName(error) {
  const dialog = $("hello");
  $("hello-error").textContent = error ?? "";
  $("hello-name").value = connection.name || remembered("name");
  if (!dialog.open) dialog.showModal();
  $("hello-name").select();
}

function useName(name) {
  remember("name", name);
  $("my-name").textContent = name;
  paintAvatar($("my-avatar"), name);
  connection.start(name);
}

$("hello").querySelector("form").addEventListener("submit", (event) => {
  const name = $("hello-name").value.trim().replace(/ +/g, " ");
  if (!name || [...name].length > 24 || /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name)) {
    event.preventDefault();
    $("hello-error").textContent = "Use 1 to 24 visible characters.";
    return;
  }
  useName(name);
});
$("hello").addEventListener("cancel", (event) => connection.name || event.preventDefault());
$("hello").addEventListener("close", () => text.focus());
$("change-name").addEventListener("click", () => {
  closePanels();
  askName();
});

const name = remembered("name");
if (name) useName(name);
else askName();
