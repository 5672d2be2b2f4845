// The list of messages of one room. All text of users is set with textContent.

import { hueOf, icon, make, paintAvatar } from "./people.js";

const GROUP_MS = 5 * 60 * 1000; // messages of one author within this time share a heading
const NEAR_END_PX = 80;

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "short" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const date = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });

function dayOf(at) {
  return new Date(at).setHours(0, 0, 0, 0);
}

function dayName(at) {
  const days = Math.round((dayOf(at) - dayOf(Date.now())) / 86400000);
  const name = days > -2 ? relative.format(days, "day") : date.format(at);
  return name[0].toUpperCase() + name.slice(1);
}

function timeText(at) {
  const minutes = Math.floor((Date.now() - at) / 60000);
  if (minutes < 1) return "just now";
  return minutes < 60 ? relative.format(-minutes, "minute") : clock.format(at);
}

function paintTime(element) {
  element.textContent = timeText(Number(element.dataset.at));
}

// Append a text. Addresses become links, if a parser agrees that they are.
function appendText(element, text) {
  let end = 0;
  for (const { 0: found, index } of text.matchAll(/\bhttps?:\/\/[^\s<>"'`]+/g)) {
    const address = trimAddress(found);
    if (!URL.canParse(address)) continue;
    const link = make("a", "", address);
    link.href = address;
    link.rel = "noopener noreferrer nofollow ugc";
    link.target = "_blank";
    element.append(text.slice(end, index), link);
    end = index + address.length;
  }
  element.append(text.slice(end));
}

// Punctuation after an address is not a part of it. Neither is a bracket without its partner.
function trimAddress(address) {
  for (;;) {
    const last = address.at(-1);
    const isLoneBracket = last === ")" && address.split(")").length > address.split("(").length;
    if (!isLoneBracket && !/[.,;:!?\]]/.test(last)) return address;
    address = address.slice(0, -1);
  }
}

const ONLY_EMOJI = /^(?:\p{Extended_Pictographic}(?:\uFE0F|\u200D|\p{Emoji_Modifier}|\p{Extended_Pictographic})*\s?){1,3}$/u;

export class MessageList {
  // on: { retry(text), discard(), seen() }
  constructor(log, list, empty, on) {
    this.log = log;
    this.list = list;
    this.empty = empty;
    this.on = on;
    log.addEventListener("scroll", () => this.isAtEnd() && on.seen(), { passive: true });
    new ResizeObserver(() => this.#sticks && this.scrollToEnd()).observe(log);
    log.addEventListener("scroll", () => (this.#sticks = this.isAtEnd()), { passive: true });
    setInterval(() => list.querySelectorAll("time").forEach(paintTime), 20000);
  }

  #sticks = true;

  isAtEnd() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR_END_PX;
  }

  scrollToEnd() {
    this.log.scrollTop = this.log.scrollHeight;
    this.#sticks = true;
  }

  // Show another room. A screen reader announces only later messages.
  show(messages, pending, firstUnread) {
    this.log.setAttribute("aria-busy", "true");
    this.log.setAttribute("aria-live", "off");
    this.list.replaceChildren();
    for (const message of messages) {
      if (message.seq === firstUnread) this.list.append(make("li", "divider", "New messages"));
      this.#insert(this.#make(message, message.own !== undefined), null);
    }
    for (const entry of pending) this.addPending(entry);
    this.#paintEmpty();
    this.scrollToEnd();
    requestAnimationFrame(() => {
      this.log.setAttribute("aria-busy", "false");
      this.log.setAttribute("aria-live", "polite");
    });
  }

  add(message) {
    const waiting = message.own !== undefined && this.list.querySelector(`[data-id="${message.own}"]`);
    if (waiting) {
      this.#confirm(waiting, message);
      return;
    }
    const item = this.#make(message, message.own !== undefined);
    item.classList.add("fresh");
    this.#insert(item, this.list.querySelector(".pending, .failed"));
    this.#paintEmpty();
  }

  addPending(entry) {
    const item = this.#make({ ...entry, from: "" }, true);
    item.dataset.id = entry.id;
    item.classList.add("pending", "fresh");
    item.querySelector(".mark").textContent = "Sending …";
    this.#insert(item, null);
    this.#paintEmpty();
  }

  // A message that is too old for the history, but that the server knows.
  confirmOld(id) {
    const item = this.list.querySelector(`[data-id="${id}"]`);
    if (item) this.#confirm(item, { at: Number(item.dataset.at) });
  }

  fail(entry, why) {
    const item = this.list.querySelector(`[data-id="${entry.id}"]`);
    if (!item) return;
    item.classList.replace("pending", "failed");
    const retry = make("button", "link", "Try again");
    const discard = make("button", "link", "Discard");
    retry.onclick = () => {
      item.remove();
      this.on.retry(entry.text);
    };
    discard.onclick = () => {
      item.remove();
      this.#paintEmpty();
      this.on.discard();
    };
    item.querySelector(".mark").replaceChildren("Not sent: " + why, retry, discard);
  }

  notice(text) {
    const item = make("li", "notice fresh");
    item.append(icon("bolt"), make("span", "", text));
    this.list.insertBefore(item, this.list.querySelector(".pending, .failed"));
    this.#paintEmpty();
  }

  divide() {
    if (!this.list.querySelector(".divider")) this.list.append(make("li", "divider", "New messages"));
  }

  undivide() {
    this.list.querySelector(".divider")?.remove();
  }

  #confirm(item, message) {
    item.classList.remove("pending");
    delete item.dataset.id;
    if (message.seq) item.dataset.seq = message.seq;
    item.querySelector(".mark").textContent = "Sent";
    this.list.querySelectorAll(".sent .mark").forEach((mark) => (mark.textContent = ""));
    this.list.querySelectorAll(".sent").forEach((old) => old.classList.remove("sent"));
    item.classList.add("sent"); // only the last one says so
  }

  #make({ seq, from, at, text }, isOwn) {
    const item = make("li", isOwn ? "message own" : "message");
    item.dataset.from = isOwn ? "" : from;
    item.dataset.at = at;
    if (seq) item.dataset.seq = seq;
    const avatar = make("span", "avatar");
    avatar.setAttribute("aria-hidden", "true");
    paintAvatar(avatar, from);
    const meta = make("div", "meta");
    const author = make("span", "author", isOwn ? "You" : from);
    author.style.setProperty("--hue", hueOf(from));
    const time = make("time");
    time.dateTime = new Date(at).toISOString();
    time.title = full.format(at);
    time.dataset.at = at;
    paintTime(time);
    if (isOwn) author.className = "hidden";
    meta.append(author, time);
    const bubble = make("div", ONLY_EMOJI.test(text) ? "bubble emoji" : "bubble");
    appendText(bubble, text);
    item.append(avatar, meta, bubble, make("div", "mark"));
    return item;
  }

  #insert(item, before) {
    this.list.insertBefore(item, before);
    this.#group(item);
    if (before?.classList.contains("message")) this.#group(before);
  }

  // Give a message a heading, unless it continues the one before it. Begin a new day.
  #group(item) {
    const previous = item.previousElementSibling;
    const before = previous?.classList.contains("message") ? previous : null;
    const at = Number(item.dataset.at);
    const isNewDay = !previous || (before && dayOf(Number(before.dataset.at)) !== dayOf(at));
    if (isNewDay && !previous?.classList.contains("day")) {
      const day = make("li", "day");
      day.append(make("span", "", dayName(at)));
      this.list.insertBefore(day, item);
    }
    const continues = before && !isNewDay && before.dataset.from === item.dataset.from && at - Number(before.dataset.at) < GROUP_MS;
    item.classList.toggle("first", !continues);
  }

  #paintEmpty() {
    this.empty.hidden = this.list.childElementCount > 0;
  }
}
