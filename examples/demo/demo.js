// The page of the demonstration. It shows the server's events and sends the user's input.
'use strict';

const byId = id => document.getElementById(id);
const number = n => Math.round(n).toLocaleString('en');
const memory = kib => kib < 1024 ? `${number(kib)} KB` : `${(kib / 1024).toFixed(1)} MB`;
const show = (id, text) => { byId(id).textContent = text; };

// Events for all pages.

const news = new EventSource('news');
news.onopen = () => {
  byId('lost').hidden = true;
  wipe(); // the server sends its stored events again
};
news.onerror = () => { byId('lost').hidden = false; };
news.addEventListener('pulse', event => {
  const [seconds, fibers, switches, kib, pages] = event.data.split(' ').map(Number);
  show('p-seconds', `${number(seconds)} s`);
  show('p-fibers', number(fibers));
  show('p-switches', number(switches));
  show('p-memory', memory(kib));
  show('p-pages', number(pages));
});

// Many fibers.

let crowd = null;
const trace = [];

function plot() {
  const canvas = byId('crowd-plot'), pen = canvas.getContext('2d');
  canvas.width = canvas.clientWidth * devicePixelRatio;
  canvas.height = canvas.clientHeight * devicePixelRatio;
  const top = Math.max(1, ...trace) * 1.1, step = canvas.width / 99;
  pen.strokeStyle = getComputedStyle(canvas).getPropertyValue('--trace');
  pen.lineWidth = 2 * devicePixelRatio;
  pen.lineJoin = 'round';
  pen.beginPath();
  trace.forEach((value, i) => pen.lineTo(i * step, canvas.height * (1 - value / top) - 2));
  pen.stroke();
}

function endCrowd() {
  crowd?.close();
  crowd = null;
  show('crowd-go', 'Start');
  show('crowd-alive', '0');
  show('crowd-rate', '0');
}

function startCrowd() {
  let last = null;
  trace.length = 0;
  crowd = new EventSource(`crowd?n=${byId('crowd-n').value}`);
  show('crowd-go', 'Stop');
  crowd.onerror = endCrowd;
  crowd.addEventListener('crowd', event => {
    const [alive, wakes, kib] = event.data.split(' ').map(Number), now = performance.now();
    show('crowd-alive', number(alive));
    show('crowd-each', `${(kib / alive).toFixed(1)} KB`);
    if (last) {
      trace.push((wakes - last.wakes) * 1000 / (now - last.now));
      if (trace.length > 100) trace.shift();
      const recent = trace.slice(-5);
      show('crowd-rate', number(recent.reduce((sum, rate) => sum + rate, 0) / recent.length));
      plot();
    }
    last = { wakes, now };
  });
}

byId('crowd-go').onclick = () => crowd ? endCrowd() : startCrowd();
startCrowd();

// Fibers and threads.

function showCompared(kind, [started, startMs, kibEach, usPerWake], count) {
  show(`${kind}-start`, `${number(startMs)} ms`);
  show(`${kind}-each`, `${kibEach.toFixed(1)} KB`);
  show(`${kind}-wake`, `${usPerWake.toFixed(1)} µs`);
  if (started < count) show('compare-said', `This system started only ${number(started)} ${kind}.`);
}

byId('compare-go').onclick = () => {
  const count = Number(byId('compare-n').value), compared = new EventSource(`compare?n=${count}`);
  const end = text => {
    compared.close();
    byId('compare-go').disabled = false;
    if (byId('compare-said').textContent === 'Measuring…') show('compare-said', text);
  };
  byId('compare-go').disabled = true;
  show('compare-said', 'Measuring…');
  compared.addEventListener('compared', event => {
    const [kind, ...numbers] = event.data.split(' ');
    showCompared(kind, numbers.map(Number), count);
  });
  compared.addEventListener('end', () => end(`Measured with ${number(count)} tasks of each kind.`));
  compared.onerror = () => end('The measurement failed.');
};

// Six slow pages.

const errandButtons = [byId('in-turn'), byId('together')];
const before = {};

function runErrands(how) {
  const bars = Array.from({ length: 6 }, () => document.createElement('i'));
  byId('bars').replaceChildren(...bars.map(bar => {
    const row = document.createElement('div');
    row.append(bar);
    return row;
  }));
  errandButtons.forEach(button => { button.disabled = true; });
  show('errands-said', 'Fetching…');
  const done = [], scale = 3500, begun = performance.now();
  const fill = () => bars.forEach((bar, i) => {
    const from = how === 'in-turn' ? (i ? done[i - 1] : 0) : 0, to = done[i] ?? performance.now() - begun;
    if (from === undefined) return;
    bar.style.marginLeft = `${100 * from / scale}%`;
    bar.style.width = `${Math.max(0, 100 * (to - from) / scale)}%`;
  });
  const turning = setInterval(fill, 30), errands = new EventSource(`errands?how=${how}`);
  const end = text => {
    clearInterval(turning);
    errands.close();
    errandButtons.forEach(button => { button.disabled = false; });
    show('errands-said', text);
  };
  errands.addEventListener('done', event => {
    const [i, ms] = event.data.split(' ').map(Number);
    done[i] = ms;
    fill();
  });
  errands.addEventListener('end', () => {
    before[how] = Math.max(...done) / 1000;
    end(Object.entries({ 'in-turn': 'One after the other', together: 'All at once' })
      .filter(([key]) => before[key])
      .map(([key, words]) => `${words}: ${before[key].toFixed(2)} s.`).join(' '));
  });
  errands.onerror = () => end('The request failed.');
}

for (const button of errandButtons)
  button.onclick = () => runErrands(button.id);

// A shared drawing.

const picture = byId('picture'), ink = picture.getContext('2d');
const hue = Math.floor(Math.random() * 360);
let points = [];

function wipe() {
  ink.clearRect(0, 0, picture.width, picture.height);
}

function drawLine([lineHue, ...line]) {
  ink.strokeStyle = `hsl(${lineHue} 70% 50%)`;
  ink.lineWidth = 4;
  ink.lineCap = ink.lineJoin = 'round';
  ink.beginPath();
  for (let i = 0; i + 1 < line.length; i += 2) ink.lineTo(line[i], line[i + 1]);
  ink.stroke();
}

// The last point is the first point of the next line.
function sendLine() {
  if (points.length < 4) return;
  fetch('draw', { method: 'POST', body: [hue, ...points].join(' ') }).catch(() => {});
  points = points.slice(-2);
}

function addPoint(event) {
  const box = picture.getBoundingClientRect();
  const clamp = (value, max) => Math.round(Math.min(max, Math.max(0, value)));
  points.push(clamp((event.clientX - box.left) * picture.width / box.width, picture.width),
    clamp((event.clientY - box.top) * picture.height / box.height, picture.height));
  if (points.length > 2) drawLine([hue, ...points.slice(-4)]);
  if (points.length >= 40) sendLine();
}

picture.onpointerdown = event => {
  picture.setPointerCapture(event.pointerId);
  points = [];
  addPoint(event);
};
picture.onpointermove = event => { if (event.buttons && points.length) addPoint(event); };
picture.onpointerup = () => { sendLine(); points = []; };
setInterval(sendLine, 60);
byId('wipe').onclick = () => fetch('draw', { method: 'POST', body: '' });
news.addEventListener('drawn', event => drawLine(event.data.split(' ').map(Number)));
news.addEventListener('wiped', wipe);

// A streamed upload.

const megabytes = bytes => (bytes / 1048576).toFixed(1);

async function upload(data) {
  const id = Math.random().toString(36).slice(2, 10), begun = performance.now();
  const follow = event => {
    const [whose, bytes, kib] = event.data.split(' ');
    if (whose !== id) return;
    byId('upload-bar').value = bytes / data.size;
    show('upload-said', `The server has read ${megabytes(bytes)} of ${megabytes(data.size)} MB; memory: ${memory(kib)}.`);
  };
  byId('upload-bar').value = 0;
  show('upload-said', 'Sending…');
  news.addEventListener('upload', follow);
  try {
    const reply = await fetch(`upload?id=${id}`, { method: 'POST', body: data });
    if (!reply.ok) throw new Error(await reply.text());
    const seconds = (performance.now() - begun) / 1000;
    byId('upload-bar').value = 1;
    show('upload-said', `${megabytes(await reply.text())} MB in ${seconds.toFixed(1)} s.`);
  } catch (error) {
    show('upload-said', `The upload failed: ${error.message}`);
  }
  news.removeEventListener('upload', follow);
}

byId('upload-made').onclick = () => upload(new Blob([new Uint8Array(64 * 1048576)]));
byId('upload-file').onchange = event => { if (event.target.files.length) upload(event.target.files[0]); };

// The code: the section "Crowd" of the server's source.

fetch('demo.c').then(reply => reply.text()).then(source => {
  const sections = source.split(/^(?=\/\*\n \* [A-Z][a-z]+: )/m);
  show('code', sections.find(section => section.startsWith('/*\n * Crowd: ')).trim());
}).catch(() => show('code', 'The source is not available.'));
