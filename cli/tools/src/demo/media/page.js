// Shows what the receiver appends: pictures to the browser's decoder, packets as dots, figures as a
// table. Nothing is computed here but shares of the last five seconds.
"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const root = document.documentElement;
  const film = by("film").getContext("2d");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const SLIDERS = { loss: " %", delay: " ms", buffer: " ms" };
  const SPAN = 8000; // milliseconds of packets
  const socket = new WebSocket(`ws://${location.host}`);
  socket.binaryType = "arraybuffer";

  function say(text) { if (by("said").textContent !== text) by("said").textContent = text; }

  // Sliders: our own moves go out; the receiver's figures say what holds, also for other pages.
  let moved = 0;
  for (const name of Object.keys(SLIDERS)) {
    by(name).addEventListener("input", () => {
      moved = performance.now();
      socket.send(new TextEncoder().encode(`${name} ${by(name).value}\n`));
      by(name + "-out").textContent = by(name).value + SLIDERS[name];
    });
  }

  socket.onopen = () => { root.dataset.state = "open"; say("waiting for a key picture"); };
  socket.onclose = () => {
    root.dataset.state = "lost";
    say("The program has ended. Start it again: roundhouse demo media");
  };
  socket.onmessage = ({ data }) => {
    const all = new DataView(data);
    for (let at = 0; at + 5 <= all.byteLength;) {
      const length = all.getUint32(at + 1, true);
      const record = new DataView(data, at + 5, length);
      ({ F: picture, P: packets, S: figures })[String.fromCharCode(all.getUint8(at))](record);
      at += 5 + length;
    }
  };

  // Pictures. A decoder begins at a key picture with its parameters (SPS), and again after an error.
  let decoder = null, codec = null, decoded = 0, restarts = 0, refused = null;
  function picture(record) {
    const [isKey, isDamaged] = [record.getUint8(0) & 1, record.getUint8(0) & 2];
    const bytes = new Uint8Array(record.buffer, record.byteOffset + 9, record.byteLength - 9);
    by("film").classList.toggle("damaged", isDamaged !== 0);
    if (!("VideoDecoder" in window)) return say("This browser has no decoder for pages (WebCodecs); the packets below are shown all the same.");
    if (refused) return say(`This browser does not decode H.264 (${refused}); the packets below are shown all the same.`);
    if (!decoder && !(isKey && begin(bytes))) return;
    const timestamp = Number(record.getBigInt64(1, true));
    try {
      decoder.decode(new EncodedVideoChunk({ type: isKey ? "key" : "delta", timestamp, data: bytes }));
    } catch (error) {
      lose(error);
    }
  }
  function begin(bytes) {
    const sps = bytes.findIndex((_, at) => bytes[at] === 1 && bytes[at - 1] === 0 && bytes[at - 2] === 0 && (bytes[at + 1] & 31) === 7);
    if (sps < 0) return false;
    codec = "avc1." + [...bytes.slice(sps + 2, sps + 5)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    const own = new VideoDecoder({ output: (frame) => show(frame), error: (error) => { if (decoder === own) lose(error); } });
    decoder = own;
    decoder.configure({ codec, optimizeForLatency: true });
    return true;
  }
  function lose(error) {
    decoder = null;
    restarts += 1;
    root.dataset.restarts = restarts;
    if (error.name === "NotSupportedError") refused = codec;
    say(decoded ? "The decoder gave up; it begins again with the next key picture." : error.message);
  }
  function show(frame) {
    decoded += 1;
    root.dataset.decoded = decoded;
    [by("film").width, by("film").height] = [frame.displayWidth, frame.displayHeight];
    film.drawImage(frame, 0, 0);
    frame.close();
    if (decoded % 25 === 1) say(`playing H.264 (${codec}), ${by("film").width} x ${by("film").height}`);
  }

  // Packets: nine bytes each. A packet that comes after all replaces its own gap.
  let dots = [];
  function packets(record) {
    const now = performance.now();
    for (let at = 0; at + 9 <= record.byteLength; at += 9) {
      const [number, delay, fate] = [record.getUint32(at, true), record.getUint32(at + 4, true) / 1000, record.getUint8(at + 8)];
      const known = fate && dots.findLast((dot) => dot.number === number);
      if (!known) dots.push({ number, delay, fate, at: now });
      else if (fate === 1) Object.assign(known, { delay, fate });
    }
    if (dots.length > 12000) dots = dots.slice(-8000);
  }

  // Figures.
  let history = [];
  function figures(record) {
    const told = JSON.parse(new TextDecoder().decode(record));
    const now = performance.now();
    if (now - moved > 500) {
      for (const name of Object.keys(SLIDERS)) {
        by(name).value = told[name];
        by(name + "-out").textContent = told[name] + SLIDERS[name];
      }
    }
    told.at = now;
    history.push(told);
    while (history.length > 2 && now - history[0].at > 5000) history.shift();
    const [first, { counts }] = [history[0], told];
    const since = (pick) => Math.max(0, pick(told) - pick(first));
    const sent = since((it) => it.counts.packets + it.counts.lost);
    const share = (count) => `${sent ? (100 * count / sent).toFixed(1) : "0.0"} %`;
    const lost = since((it) => it.counts.lost), late = since((it) => it.late);
    const seconds = Math.max(0.001, (now - first.at) / 1000);
    const rate = since((it) => it.counts.bytes) * 8 / seconds / 1000;
    const all = (count) => count.toLocaleString("en");
    const rows = [
      ["packets sent", all(sent), all(counts.packets + counts.lost)],
      ["lost", share(lost), all(counts.lost)],
      ["too late", share(late), all(told.late)],
      ["out of order", all(since((it) => it.counts.reordered)), all(counts.reordered)],
      ["jitter (RFC 3550)", `${counts.jitter_ms.toFixed(1)} ms`, ""],
      ["rate", `${rate.toFixed(0)} kbit/s`, ""],
      ["pictures", all(since((it) => it.pictures)), all(told.pictures)],
      ["damaged pictures", all(since((it) => it.damaged)), all(told.damaged)],
    ];
    by("figures").replaceChildren(...rows.map(([name, recent, total]) => {
      const row = document.createElement("tr");
      row.append(Object.assign(document.createElement("th"), { scope: "row", textContent: name }));
      for (const text of [recent, total]) row.append(Object.assign(document.createElement("td"), { textContent: text }));
      return row;
    }));
    Object.assign(root.dataset, { packets: counts.packets, lost: counts.lost, late: told.late, damaged: told.damaged,
      share: sent ? lost / sent : 0, lateShare: sent ? late / sent : 0 });
  }

  // The strip: time to the right, delay upwards, lost packets on top.
  const canvas = by("packets"), pen = canvas.getContext("2d");
  let tones = {}, top = 200;
  function resize() {
    const scale = devicePixelRatio || 1;
    [canvas.width, canvas.height] = [canvas.clientWidth * scale, canvas.clientHeight * scale];
    for (const name of ["jump", "path", "goal", "muted", "line", "text"]) tones[name] = getComputedStyle(root).getPropertyValue("--" + name);
  }
  function draw(now) {
    const scale = devicePixelRatio || 1;
    const [width, height] = [canvas.width, canvas.height];
    const [left, roof, floor] = [60 * scale, 26 * scale, height - 10 * scale];
    while (dots.length && now - dots[0].at > SPAN) dots.shift();
    const buffer = Number(by("buffer").value);
    const most = dots.reduce((most, dot) => Math.max(most, dot.delay), buffer * 1.3);
    top += (Math.min(most * 1.1, 2500) - top) * 0.08;
    const y = (delay) => floor - (floor - roof) * Math.min(1, delay / top);
    pen.clearRect(0, 0, width, height);
    pen.font = `${12 * scale}px system-ui, sans-serif`;
    pen.textBaseline = "middle";
    const rule = (at, text, colour, dash) => {
      Object.assign(pen, { strokeStyle: colour, fillStyle: colour, lineWidth: scale });
      pen.setLineDash(dash);
      pen.beginPath();
      pen.moveTo(left, at);
      pen.lineTo(width, at);
      pen.stroke();
      pen.setLineDash([]);
      pen.fillText(text, 4 * scale, at);
    };
    rule(roof - 13 * scale, "lost", tones.goal, [1, 4 * scale]);
    rule(floor, "0 ms", tones.muted, []);
    rule(y(buffer), `${buffer} ms`, tones.muted, [6 * scale, 4 * scale]);
    const colours = [tones.jump, tones.path, tones.goal];
    for (const fate of [0, 1, 2]) {
      pen.fillStyle = colours[fate];
      for (const dot of dots) {
        if (dot.fate !== fate) continue;
        const x = width - (width - left) * (now - dot.at) / SPAN;
        if (x < left) continue;
        if (fate === 2) pen.fillRect(x - scale, roof - 20 * scale, 2 * scale, 14 * scale);
        else pen.fillRect(x - 1.5 * scale, y(dot.delay) - 1.5 * scale, 3 * scale, 3 * scale);
      }
    }
  }
  function frame(now) {
    draw(now);
    // Without motion the strip is drawn once a second.
    if (still.matches) setTimeout(() => requestAnimationFrame(frame), 1000);
    else requestAnimationFrame(frame);
  }
  addEventListener("resize", resize);
  dark.addEventListener("change", resize);
  resize();
  requestAnimationFrame(frame);
})();
