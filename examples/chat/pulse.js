// The counters of the runtime, each with a curve of the last minute.

import { make } from "./people.js";

const SAMPLES = 60;
const SVG = "http://www.w3.org/2000/svg";
const number = new Intl.NumberFormat();

function micros(value) {
  return value < 1000 ? [Math.round(value), "µs"] : [(value / 1000).toFixed(value < 10000 ? 2 : 1), "ms"];
}

const GAUGES = {
  fibers: { label: "Fibers", format: (n) => [number.format(n), ""] },
  switches: { label: "Switches", format: (n) => [number.format(n), "/ s"] },
  memory: { label: "Memory", format: (kib) => [(kib / 1024).toFixed(1), "MiB"] },
  roundTrip: { label: "Round trip", format: (ms) => micros(ms * 1000) },
  latency: { label: "Message latency: received to sent", format: micros },
};

class Gauge {
  constructor(parent, id, { label, format }) {
    this.format = format;
    this.samples = [];
    this.value = make("dd", "", "–");
    this.value.id = "pulse-" + id;
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${SAMPLES - 1} 30`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    this.area = document.createElementNS(SVG, "path");
    this.area.setAttribute("class", "area");
    this.curve = document.createElementNS(SVG, "path");
    this.curve.setAttribute("class", "curve");
    svg.append(this.area, this.curve);
    const box = make("div", "gauge");
    box.append(make("dt", "", label), this.value, svg);
    parent.append(box);
  }

  add(sample) {
    this.samples.push(sample);
    if (this.samples.length > SAMPLES) this.samples.shift();
    const [text, unit] = this.format(sample);
    this.value.replaceChildren(text + " ", make("small", "", unit));
    this.#draw();
  }

  #draw() {
    const top = Math.max(...this.samples) * 1.15 || 1;
    const left = SAMPLES - this.samples.length;
    const points = this.samples.map((sample, i) => `${left + i} ${(28 - (26 * sample) / top).toFixed(2)}`);
    if (points.length === 1) points.unshift(`${left - 1} ${points[0].split(" ")[1]}`);
    const line = "M" + points.join("L");
    this.curve.setAttribute("d", line);
    this.area.setAttribute("d", `${line}V30H${points[0].split(" ")[0]}Z`);
  }
}

export class Pulse {
  constructor(parent) {
    this.gauges = {};
    for (const [id, gauge] of Object.entries(GAUGES)) this.gauges[id] = new Gauge(parent, id, gauge);
  }

  beat({ fibers, switches, kib, meanMicroseconds }) {
    this.gauges.fibers.add(fibers);
    this.gauges.switches.add(switches);
    this.gauges.memory.add(kib);
    if (meanMicroseconds !== undefined) this.gauges.latency.add(meanMicroseconds);
  }

  roundTrip(ms) {
    this.gauges.roundTrip.add(ms);
  }
}
