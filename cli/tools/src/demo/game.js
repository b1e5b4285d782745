// A client of the game's protocol (docs/game.md): packets in binary messages, numbers little-endian.
"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const root = document.documentElement;
  const canvas = by("world"), pen = canvas.getContext("2d");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const socket = new WebSocket(`ws://${location.host}`);
  socket.binaryType = "arraybuffer";

  let me = null, size = [0, 0], tick = 80, rows = [], known = 0, way = [], ground = null;
  const guests = new Map();

  // Packets out: a length, a kind, fields.
  function send(kind, ...bytes) {
    if (socket.readyState !== WebSocket.OPEN) return;
    const length = bytes.length + 1;
    socket.send(new Uint8Array([length & 255, length >> 8, kind, ...bytes]));
  }
  const short = (value) => [value & 255, value >> 8];
  const utf8 = (text) => [...new TextEncoder().encode(text)];
  const go = (x, y) => { if (me) send(2, ...short(x), ...short(y)); };

  socket.onopen = () => {
    const name = utf8("visitor " + (1 + Math.floor(Math.random() * 99)));
    send(1, 1, 0, name.length, ...name);
  };
  socket.onclose = () => {
    root.dataset.state = "lost";
    by("said").textContent = "The server has stopped. Start it again: roundhouse demo";
  };

  // Packets in; a packet may continue in the next message.
  let rest = new Uint8Array(0);
  socket.onmessage = ({ data }) => {
    const bytes = new Uint8Array(rest.length + data.byteLength);
    bytes.set(rest);
    bytes.set(new Uint8Array(data), rest.length);
    let at = 0;
    while (at + 2 <= bytes.length) {
      const length = bytes[at] | bytes[at + 1] << 8;
      if (at + 2 + length > bytes.length) break;
      hear(new DataView(bytes.buffer, at + 2, length));
      at += 2 + length;
    }
    rest = bytes.slice(at);
  };

  function hear(packet) {
    const u16 = (at) => packet.getUint16(at, true);
    const id = (at) => packet.getBigUint64(at, true);
    const place = (at) => [u16(at), u16(at + 2)];
    const text = (from, to) => new TextDecoder().decode(new Uint8Array(packet.buffer, packet.byteOffset + from, to - from));
    const name = (it) => (it === me ? "you" : guests.get(it)?.name ?? "somebody");
    switch (packet.getUint8(0)) {
      case 0x81: // WELCOME
        me = id(3);
        size = place(11);
        tick = u16(15);
        rows = Array(size[1]).fill(null);
        enter(me, place(17), "you", true);
        for (let row = 0; row < size[1]; row += 64) send(5, ...short(row), ...short(64));
        root.dataset.state = "open";
        resize();
        say();
        break;
      case 0x82: // ROW
        if (!rows[u16(1)]) known += 1;
        rows[u16(1)] = new Uint8Array(packet.buffer.slice(packet.byteOffset + 3, packet.byteOffset + packet.byteLength));
        if (known === size[1]) paint();
        break;
      case 0x83: // ENTER
        if (id(1) !== me) enter(id(1), place(10), text(15, 15 + packet.getUint8(14)), packet.getUint8(9) === 0);
        break;
      case 0x84: // LEAVE
        note(`${name(id(1))} has left`);
        guests.delete(id(1));
        break;
      case 0x85: // MOVES
        for (let at = 5; at + 12 <= packet.byteLength; at += 12) move(id(at), place(at + 8));
        break;
      case 0x86: // PATH
        way = [];
        for (let at = 10; at + 4 <= packet.byteLength; at += 4) way.push(place(at));
        root.dataset.way = packet.getUint32(2, true) + packet.getUint32(6, true);
        break;
      case 0x88: // SAID
        note(`${name(id(1))}: ${text(17, packet.byteLength)}`);
        break;
    }
    by("tally").textContent = `${[...guests.values()].filter((it) => it.walks).length} walking`;
    root.dataset.others = guests.size - 1;
  }

  function enter(id, at, name, walks) {
    if (!guests.has(id) && id !== me) note(`${name} is here`);
    guests.set(id, { at, from: at, since: 0, trail: [], name, walks });
  }

  function move(id, to) {
    const guest = guests.get(id);
    if (!guest) return send(6); // WHO
    Object.assign(guest, { from: guest.at, at: to, since: performance.now() });
    guest.trail = [...guest.trail.slice(-24), guest.from];
    if (id !== me) return;
    if (way.length > 1 && way[1][0] === to[0] && way[1][1] === to[1]) way.shift();
    if (stopping) [stopping] = [false, send(3), way = []];
    say();
  }

  function say() {
    const [x, y] = guests.get(me).at;
    [root.dataset.x, root.dataset.y] = [x, y];
    by("said").textContent = `You are at ${x},${y}.`;
  }

  function note(text) {
    by("talk").append(Object.assign(document.createElement("li"), { textContent: text }));
    while (by("talk").children.length > 5) by("talk").firstChild.remove();
  }

  const free = (x, y) => x >= 0 && y >= 0 && x < size[0] && y < size[1] && (rows[y]?.[x >> 3] >> (x & 7) & 1) === 1;

  // Arrows: straight on while they are held, at least one step.
  const held = new Set();
  const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  let stopping = false, start = "";
  function steer() {
    const [dx, dy] = [...held].reduce(([x, y], key) => [x + KEYS[key][0], y + KEYS[key][1]], [0, 0]);
    let [x, y] = guests.get(me).at;
    if (!dx && !dy) {
      if (`${x},${y}` === start) stopping = true; else [way] = [[], send(3)];
      return;
    }
    [stopping, start] = [false, `${x},${y}`];
    const from = [x, y];
    for (let step = 0; step < 60 && free(x + dx, y + dy); step++) [x, y] = [x + dx, y + dy];
    if (x !== from[0] || y !== from[1]) go(x, y); else start = "";
  }
  addEventListener("keydown", (event) => {
    if (!me || event.target === by("text")) return;
    if (event.key === " ") { send(3); way = []; event.preventDefault(); }
    if (!KEYS[event.key]) return;
    event.preventDefault();
    if (!held.has(event.key)) { held.add(event.key); steer(); }
  });
  addEventListener("keyup", (event) => { if (held.delete(event.key)) steer(); });
  addEventListener("blur", () => { if (held.size) { held.clear(); steer(); } });
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const at = (value, extent, cells) => Math.max(0, Math.min(cells - 1, Math.floor(value / extent * cells)));
    stopping = false;
    go(at(event.clientX - box.left, box.width, size[0]), at(event.clientY - box.top, box.height, size[1]));
  });
  by("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const words = utf8(by("text").value.trim());
    if (words.length && words.length <= 200) send(4, ...Array(8).fill(0), ...words);
    by("text").value = "";
  });

  // Drawing: the ground once for each size and scheme, the rest in each frame.
  const tone = (name) => getComputedStyle(root).getPropertyValue("--" + name);
  let tones = {}, cell = 10;
  function resize() {
    if (!size[0]) return;
    const scale = devicePixelRatio || 1;
    canvas.style.aspectRatio = `${size[0]} / ${size[1]}`;
    canvas.width = Math.max(size[0], Math.round(canvas.clientWidth * scale));
    canvas.height = Math.round(canvas.width * size[1] / size[0]);
    cell = canvas.width / size[0];
    paint();
  }
  function paint() {
    for (const name of ["free", "wall", "grid", "path", "start", "goal", "text", "card"]) tones[name] = tone(name);
    ground = new OffscreenCanvas(canvas.width, canvas.height);
    const brush = ground.getContext("2d");
    brush.fillStyle = tones.free;
    brush.fillRect(0, 0, canvas.width, canvas.height);
    for (let y = 0; y < size[1]; y++) {
      for (let x = 0; x < size[0]; x++) {
        brush.fillStyle = free(x, y) ? tones.grid : tones.wall;
        const gap = free(x, y) ? Math.max(1, cell * 0.08) : 0;
        brush.fillRect(x * cell + gap, y * cell + gap, cell - gap + (gap ? 0 : 0.5), cell - gap + (gap ? 0 : 0.5));
      }
    }
  }
  const middle = ([x, y]) => [(x + 0.5) * cell, (y + 0.5) * cell];
  function line(points, colour, width, alpha, lineCap) {
    Object.assign(pen, { strokeStyle: colour, lineWidth: width, globalAlpha: alpha, lineCap, lineJoin: "round" });
    pen.beginPath();
    points.forEach((point) => pen.lineTo(...middle(point)));
    pen.stroke();
    pen.globalAlpha = 1;
  }
  function frame(now) {
    requestAnimationFrame(frame);
    if (!ground) return;
    pen.drawImage(ground, 0, 0);
    const seen = [...guests].filter(([, guest]) => guest.walks);
    for (const [id, guest] of seen) {
      const part = still.matches ? 1 : Math.min(1, (now - guest.since) / tick);
      guest.shown = [0, 1].map((at) => guest.from[at] + (guest.at[at] - guest.from[at]) * part);
      const colour = id === me ? tones.goal : tones.start;
      guest.trail.forEach((_, at, all) => {
        if (at) line([all[at - 1], all[at]], colour, cell * 0.35, 0.5 * at / all.length, "butt");
      });
    }
    if (way.length > 1) {
      line([guests.get(me).shown, ...way.slice(1)], tones.path, cell * 0.4, 0.9, "round");
      pen.fillStyle = tones.path;
      disc(way.at(-1), 0.6);
    }
    const letters = Math.max(12 * (devicePixelRatio || 1), cell * 0.9);
    pen.font = `600 ${letters}px system-ui, sans-serif`;
    for (const [id, guest] of seen) {
      const at = guest.shown;
      pen.fillStyle = tones.card;
      disc(at, 0.85);
      pen.fillStyle = id === me ? tones.goal : tones.start;
      disc(at, 0.68);
      const [x, y] = middle(at);
      const half = pen.measureText(guest.name).width / 2;
      const [left, top] = [Math.max(half, Math.min(canvas.width - half, x)), y < letters * 2 ? y + cell + letters : y - cell];
      Object.assign(pen, { textAlign: "center", lineWidth: letters / 4, strokeStyle: tones.card, lineJoin: "round", fillStyle: tones.text });
      pen.strokeText(guest.name, left, top);
      pen.fillText(guest.name, left, top);
    }
  }
  function disc(at, radius) {
    pen.beginPath();
    pen.arc(...middle(at), cell * radius, 0, 2 * Math.PI);
    pen.fill();
  }
  addEventListener("resize", resize);
  dark.addEventListener("change", () => { if (ground) paint(); });
  requestAnimationFrame(frame);
})();
