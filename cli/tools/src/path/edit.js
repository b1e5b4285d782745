// Draws a grid twice and animates on it what two searches did. It never searches: it sends the grid to
// where it came from.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const root = document.documentElement;
  const METHODS = [["astar", "A*"], ["jps", "JPS"]];
  const RULES = { always: "corners may always be cut", "one-obstacle": "at most one obstacle at a corner",
    "no-obstacle": "no corner cut", four: "four neighbours" };
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  let width = 0, height = 0, walls = new Uint8Array(0);
  let from = [0, 0], to = [0, 0];
  let mark = null; // the keyboard's cell
  let answer = null, asked = 0, colours = {};
  const sides = [0, 1].map((at) => ({ canvas: by("canvas" + at), state: new Uint8Array(0), at: 0, done: 0 }));

  const name = (method) => METHODS.find(([known]) => known === method)[1];
  const method = (side) => by(side === 0 ? "left" : "right").value;
  const at = (x, y) => y * width + x;
  const same = (a, b) => a[0] === b[0] && a[1] === b[1];

  function say(text, bad) {
    by("said").textContent = text;
    by("said").className = bad ? "bad" : "";
  }

  function load(scene) {
    height = scene.rows.length;
    width = scene.rows[0].length;
    walls = new Uint8Array(width * height);
    scene.rows.forEach((row, y) => [...row].forEach((cell, x) => { walls[at(x, y)] = cell === "." ? 0 : 1; }));
    from = [...scene.from];
    to = [...scene.to];
    mark = null;
  }

  function rows() {
    return Array.from({ length: height }, (_, y) =>
      Array.from({ length: width }, (_, x) => (walls[at(x, y)] ? "@" : ".")).join(""));
  }

  // Asking. Only the answer to the last question counts.
  async function ask() {
    const number = ++asked;
    root.dataset.state = "asking";
    const question = { rows: rows(), from, to, rule: by("rule").value, algorithms: [...new Set([method(0), method(1)])] };
    try {
      const reply = await fetch("/search", { method: "POST", body: JSON.stringify(question) });
      const told = await reply.json();
      if (number !== asked) return;
      if (told.error) {
        root.dataset.state = "refused";
        say(told.error, true);
      } else {
        show(told);
      }
    } catch (error) {
      if (number !== asked) return;
      root.dataset.state = "lost";
      say("The program that searches does not answer. Start it again: roundhouse path edit", true);
    }
  }

  function show(told) {
    answer = told;
    sides.forEach((side, number) => {
      side.told = told.answers[method(number)];
      side.state = new Uint8Array(width * height);
      side.at = 0;
      side.done = 0;
      root.dataset["length" + number] = side.told.found ? side.told.length.toFixed(4) : "none";
    });
    // At the same pace, so that who needs fewer cells is seen to be ready sooner.
    clock = still.matches ? Infinity : 0;
    last = null;
    root.dataset.state = "animating";
    say(sentence());
    requestAnimationFrame(frame);
  }

  function sentence() {
    const [one, two] = sides.map((side) => side.told);
    if (!answer.joined) {
      const near = answer.nearest ? ` The nearest cell that can be reached is ${answer.nearest.join(",")}.` : "";
      return `Walls part start and goal; that was known before any search.${near}`;
    }
    const part = (told, number) => `${name(method(number))} expands ${told.expanded} cells in ${told.us.toFixed(1)} µs`;
    const length = `The shortest path is ${one.length.toFixed(4)} long (${one.straight} straight and ${one.diagonal} diagonal steps; ${RULES[by("rule").value]}).`;
    if (method(0) === method(1)) return `${length} ${part(one, 0)}.`;
    const agree = one.straight === two.straight && one.diagonal === two.diagonal ? "" : " The two disagree: please report this.";
    return `${length} ${part(one, 0)}, ${part(two, 1)}.${agree}`;
  }

  // Time. `clock` is how many cells each search may have expanded by now.
  let clock = 0, last = null;
  function frame(now) {
    if (root.dataset.state !== "animating") return;
    if (last !== null) clock += Math.min(0.1, (now - last) / 1000) * Math.pow(10, Number(by("speed").value));
    last = now;
    let more = false;
    sides.forEach((side) => {
      const trace = side.told.trace;
      while (side.at < trace.length && (side.done < clock || trace[side.at] === 0)) {
        const cell = at(trace[side.at + 1], trace[side.at + 2]);
        if (trace[side.at] === 1) { side.state[cell] = 2; side.done += 1; }
        else if (side.state[cell] === 0) side.state[cell] = 1;
        side.at += 5;
      }
      more ||= side.at < trace.length;
    });
    draw();
    if (more) requestAnimationFrame(frame);
    else root.dataset.state = "done";
  }

  // Drawing.
  function tones() {
    const style = getComputedStyle(root);
    for (const key of ["free", "grid", "wall", "open", "seen", "jump", "path", "start", "goal", "link"]) {
      colours[key] = style.getPropertyValue("--" + key).trim();
    }
  }

  function draw() {
    sides.forEach((side, number) => {
      const canvas = side.canvas, scale = devicePixelRatio || 1;
      const cell = Math.max(1, Math.floor(canvas.clientWidth * scale / width));
      if (canvas.width !== cell * width || canvas.height !== cell * height) {
        canvas.width = cell * width;
        canvas.height = cell * height;
      }
      const pen = canvas.getContext("2d");
      pen.fillStyle = colours.free;
      pen.fillRect(0, 0, canvas.width, canvas.height);
      const gap = cell >= 6 ? 1 : 0;
      const tone = [null, colours.open, colours.seen];
      for (let y = 0; y < height; y++) {
        for (let x = 0; x < width; x++) {
          const fill = walls[at(x, y)] ? colours.wall : tone[side.state[at(x, y)] || 0];
          if (fill || gap) {
            pen.fillStyle = fill || colours.grid;
            if (fill) pen.fillRect(x * cell, y * cell, cell - (walls[at(x, y)] ? 0 : gap), cell - (walls[at(x, y)] ? 0 : gap));
            else pen.fillRect(x * cell + cell - 1, y * cell + cell - 1, 1, 1);
          }
        }
      }
      const middle = (v) => (v + 0.5) * cell;
      const told = side.told;
      if (told && told.found && side.at >= told.trace.length) {
        pen.strokeStyle = colours.path;
        pen.lineWidth = Math.max(1.5, cell * 0.32);
        pen.lineJoin = pen.lineCap = "round";
        pen.beginPath();
        for (let i = 0; i < told.path.length; i += 2) pen.lineTo(middle(told.path[i]), middle(told.path[i + 1]));
        pen.stroke();
      }
      for (const [place, fill] of [[from, colours.start], [to, colours.goal]]) {
        pen.fillStyle = fill;
        pen.beginPath();
        pen.arc(middle(place[0]), middle(place[1]), Math.max(3, cell * 0.55), 0, 2 * Math.PI);
        pen.fill();
      }
      if (mark) {
        pen.strokeStyle = colours.link;
        pen.lineWidth = 2;
        pen.strokeRect(mark[0] * cell - 1, mark[1] * cell - 1, cell + 2, cell + 2);
      }
      by("name" + number).textContent = name(method(number));
      by("tally" + number).textContent = told
        ? `${side.done} of ${told.expanded} cells expanded, ${told.opened} opened` : "";
    });
  }

  // Building walls.
  let hand = null; // what the pointer does: draws walls or removes them, or carries an end
  function change() {
    root.dataset.walls = walls.reduce((sum, wall) => sum + wall, 0);
    answer = null;
    sides.forEach((side) => { side.told = undefined; side.state = new Uint8Array(width * height); });
    draw();
  }

  function put(cell) {
    const [x, y] = cell;
    if (hand.carries) {
      if (!walls[at(x, y)]) hand.carries[0] = x, hand.carries[1] = y;
    } else if (!same(cell, from) && !same(cell, to)) {
      walls[at(x, y)] = hand.builds;
    }
  }

  function cellAt(event, canvas) {
    const box = canvas.getBoundingClientRect(), inner = canvas.clientLeft;
    const x = Math.floor((event.clientX - box.left - inner) / canvas.clientWidth * width);
    const y = Math.floor((event.clientY - box.top - inner) / canvas.clientHeight * height);
    return [Math.max(0, Math.min(width - 1, x)), Math.max(0, Math.min(height - 1, y))];
  }

  function line(a, b, visit) {
    const steps = Math.max(Math.abs(b[0] - a[0]), Math.abs(b[1] - a[1]), 1);
    for (let i = 0; i <= steps; i++) {
      visit([Math.round(a[0] + (b[0] - a[0]) * i / steps), Math.round(a[1] + (b[1] - a[1]) * i / steps)]);
    }
  }

  for (const { canvas } of sides) {
    canvas.addEventListener("pointerdown", (event) => {
      const cell = cellAt(event, canvas);
      canvas.setPointerCapture(event.pointerId);
      const carries = same(cell, from) ? from : same(cell, to) ? to : null;
      hand = { cell, carries, builds: walls[at(...cell)] ? 0 : 1 };
      put(cell);
      change();
      event.preventDefault();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!hand) return;
      const cell = cellAt(event, canvas);
      if (same(cell, hand.cell)) return;
      line(hand.cell, cell, put);
      hand.cell = cell;
      change();
    });
    const lift = () => {
      if (!hand) return;
      hand = null;
      ask();
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (move) {
        mark ??= [...from];
        mark = [Math.max(0, Math.min(width - 1, mark[0] + move[0])), Math.max(0, Math.min(height - 1, mark[1] + move[1]))];
        draw();
      } else if (mark && ["Enter", "s", "g"].includes(event.key)) {
        const end = { s: from, g: to }[event.key];
        hand = end ? { carries: end } : { builds: walls[at(...mark)] ? 0 : 1 };
        put(mark);
        hand = null;
        change();
        ask();
      } else {
        return;
      }
      event.preventDefault();
    });
  }

  addEventListener("keydown", (event) => {
    if (event.target.closest("select, button, input") || event.ctrlKey || event.metaKey || event.altKey) return;
    const choice = { 1: ["astar", "astar"], 2: ["jps", "jps"], 3: ["astar", "jps"] }[event.key];
    if (choice) [by("left").value, by("right").value] = choice;
    if (choice || event.key === " ") {
      event.preventDefault();
      ask();
    }
  });

  // Setting up.
  function options(select, all) {
    select.replaceChildren(...all.map(([value, text]) => Object.assign(document.createElement("option"), { value, textContent: text })));
  }
  options(by("map"), data.maps.map((scene, number) => [number, scene.name]));
  options(by("left"), METHODS);
  options(by("right"), METHODS);
  by("right").value = "jps";
  by("rule").value = data.rule;
  by("map").addEventListener("change", () => { load(data.maps[by("map").selectedIndex]); change(); ask(); });
  for (const id of ["rule", "left", "right"]) by(id).addEventListener("change", () => ask());
  by("run").addEventListener("click", () => ask());
  by("clear").addEventListener("click", () => { walls.fill(0); change(); ask(); });
  by("save").addEventListener("click", () => {
    const text = `type octile\nheight ${height}\nwidth ${width}\nmap\n${rows().join("\n")}\n`;
    const link = document.createElement("a");
    link.href = "data:text/plain;charset=utf-8," + encodeURIComponent(text);
    link.download = "drawn.map";
    link.click();
  });
  addEventListener("resize", draw);
  dark.addEventListener("change", () => { tones(); draw(); });
  tones();
  load(data.maps[0]);
  change();
  ask();
})();
