// The WebSocket of the page: it connects again after a loss, and repeats messages until the server
// has confirmed them. The server detects repetitions by the secret of this window and the message's id.

const DELAY_MS = 300;
const DELAY_MAX_MS = 8000;
const SILENCE_MS = 6000; // the server sends a pulse every second
const PING_MS = 5000;

export const CLOSE = { BAD_COMMAND: 4000, TOO_SLOW: 4001, REPLACED: 4002, NAME_TAKEN: 4003, FULL: 4004 };

function stored() {
  try {
    const state = JSON.parse(sessionStorage.getItem("window"));
    if (state && state.client && Number.isSafeInteger(state.next) && Array.isArray(state.outbox)) return state;
  } catch {
    // Without storage, a reload of the page begins a new window.
  }
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const client = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { client, next: 1, outbox: [] };
}

export class Connection {
  #state = stored();
  #socket = null;
  #failures = 0;
  #retry = 0;
  #watch = 0;
  #heardAt = 0;
  #pings = new Map();

  // on: { online(welcome), offline(seconds), closed(code), message(object), roundTrip(ms), refused(entry, why) }
  constructor(on) {
    this.on = on;
    this.name = "";
    this.isOnline = false;
    addEventListener("online", () => this.#connectSoon(0));
    addEventListener("offline", () => this.#lost(this.#socket, 0));
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && !this.isOnline && this.#retry) this.#connectSoon(0);
    });
    setInterval(() => this.#ping(), PING_MS);
  }

  get outbox() {
    return this.#state.outbox;
  }

  start(name) {
    if (this.name !== name) this.#drop();
    this.name = name;
    this.#failures = 0;
    this.#connectSoon(0);
  }

  retryNow() {
    this.#connectSoon(0);
  }

  // Returns the entry of the outbox.
  say(room, text) {
    const entry = { id: this.#state.next++, room, text, at: Date.now() };
    this.#state.outbox.push(entry);
    this.#store();
    this.send({ t: "say", room, id: entry.id, text });
    return entry;
  }

  // Send a command that is not worth repeating.
  send(command) {
    if (this.isOnline && this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(command));
  }

  // Remove a confirmed or refused message from the outbox.
  settle(id) {
    const index = this.outbox.findIndex((entry) => entry.id === id);
    if (index < 0) return null;
    const [entry] = this.outbox.splice(index, 1);
    this.#store();
    return entry;
  }

  #store() {
    try {
      sessionStorage.setItem("window", JSON.stringify(this.#state));
    } catch {
      // see stored()
    }
  }

  #connectSoon(delay) {
    clearTimeout(this.#retry);
    if (!this.name || this.isOnline) return;
    this.#retry = setTimeout(() => this.#connect(), delay);
  }

  #connect() {
    this.#retry = 0;
    this.#drop();
    const url = new URL("ws", location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    this.#socket = socket;
    this.#heardAt = Date.now();
    this.#watch = setInterval(() => {
      if (Date.now() - this.#heardAt > SILENCE_MS) this.#lost(socket, 0);
    }, 1000);
    socket.onopen = () => socket.send(JSON.stringify({ t: "hello", name: this.name, client: this.#state.client }));
    socket.onmessage = (event) => socket === this.#socket && this.#receive(event.data);
    socket.onclose = (event) => this.#lost(socket, event.code);
  }

  // Forget the current socket. Its late events have no effect.
  #drop() {
    const socket = this.#socket;
    this.#socket = null;
    clearInterval(this.#watch);
    this.#pings.clear();
    this.isOnline = false;
    socket?.close();
  }

  #lost(socket, code) {
    if (socket === null || socket !== this.#socket) return;
    const wasOnline = this.isOnline;
    this.#drop();
    if (code === CLOSE.BAD_COMMAND && wasOnline && this.outbox.length > 0)
      this.on.refused(this.settle(this.outbox[0].id), "The server refused this message.");
    if (code === CLOSE.REPLACED || code === CLOSE.NAME_TAKEN || (code === CLOSE.BAD_COMMAND && !wasOnline)) {
      this.on.closed(code);
      return;
    }
    const delay = Math.min(DELAY_MAX_MS, DELAY_MS * 2 ** this.#failures++) * (0.75 + Math.random() / 2);
    this.on.offline(delay);
    this.#connectSoon(delay);
  }

  #receive(text) {
    const message = JSON.parse(text);
    this.#heardAt = Date.now();
    if (message.t === "welcome") {
      this.isOnline = true;
      this.#failures = 0;
      this.on.online(message); // joins a room first
      for (const { room, id, text: said } of this.outbox) this.send({ t: "say", room, id, text: said });
      this.#ping();
    } else if (message.t === "pong") {
      if (this.#pings.has(message.id)) this.on.roundTrip(performance.now() - this.#pings.get(message.id));
      this.#pings.delete(message.id);
    } else {
      this.on.message(message);
    }
  }

  #ping() {
    if (!this.isOnline || document.hidden) return;
    const id = this.#state.next++;
    this.#pings.clear();
    this.#pings.set(id, performance.now());
    this.send({ t: "ping", id });
  }
}
