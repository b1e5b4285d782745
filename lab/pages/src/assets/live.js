// Draws the document that the server publishes, again with each edition; comes back by itself.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const at = (id) => document.getElementById(id);
  // A text in the language of the page, with its values.
  const T = (text, values = {}) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const say = (place, text) => {
    if (place.textContent !== text) place.textContent = text;
  };
  const make = (name, attributes, ...inside) => {
    const it = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) it.setAttribute(key, value);
    it.append(...inside);
    return it;
  };
  const draw = (name, attributes) => {
    const it = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) it.setAttribute(key, value);
    return it;
  };
  const span = (ms) => {
    const seconds = Math.round(ms / 1000);
    if (seconds < 60) return `${seconds} s`;
    const minutes = Math.floor(seconds / 60);
    if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
    return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  };

  // ---- one comparison: how its interval closed in, over the twin's band
  const WIDTH = 260, HEIGHT = 54, EDGE = 5;
  const funnel = (row, twin, reach, blocks) => {
    const box = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: `funnel ${row.class}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    const across = (n) => EDGE + ((n - 1) / Math.max(blocks - 1, 1)) * (WIDTH - 2 * EDGE);
    const up = (ratio) => {
      const log = Math.max(-reach, Math.min(reach, Math.log(ratio)));
      return HEIGHT / 2 - (log / reach) * (HEIGHT / 2 - EDGE);
    };
    const area = (steps, name) => {
      const known = steps.filter((it) => it.low !== null);
      if (!known.length) return;
      const first = known[0], last = known[known.length - 1];
      const forth = [...known, { ...last, blocks: last.blocks + 0.35 }];
      const top = forth.map((it) => `${across(it.blocks)},${up(it.high)}`);
      const low = forth.map((it) => `${across(it.blocks)},${up(it.low)}`).reverse();
      const start = `${across(first.blocks - 0.35)},${up(first.high)}`;
      const end = `${across(first.blocks - 0.35)},${up(first.low)}`;
      box.append(draw("polygon", { class: name, points: [start, ...top, ...low, end].join(" ") }));
    };
    if (twin && twin !== row) area(twin.steps, "band");
    box.append(draw("line", { class: "one", x1: 0, x2: WIDTH, y1: up(1), y2: up(1) }));
    area(row.steps, "area");
    const places = row.steps.map((it) => `${across(it.blocks)},${up(it.ratio)}`);
    box.append(draw("polyline", { class: "line", points: places.join(" ") }));
    return box;
  };

  const estimates = (it) => {
    const points = [...new Set(it.rows.map((row) => row.point))];
    if (!points.length) return;
    // Three quarters of the ends fit; one arm far away must not press all others into a line.
    const ends = it.rows.flatMap((row) => {
      const last = row.steps[row.steps.length - 1];
      return [last.ratio, last.low, last.high].filter((end) => end > 0);
    });
    const logs = ends.map((end) => Math.abs(Math.log(end))).sort((a, b) => a - b);
    const held = logs[Math.max(Math.ceil(logs.length * 0.75) - 1, 0)] || 0;
    const reach = Math.min(Math.max(held * 1.3, Math.log(1.08)), Math.log(4));
    const tables = points.map((point) => {
      const mine = it.rows.filter((row) => row.point === point);
      const metrics = [...new Set(mine.map((row) => row.metric))];
      const arms = [...new Set(mine.map((row) => row.arm))];
      const head = make("tr", {}, make("th", { scope: "col" }, point), ...metrics.map((metric) => make("th", { scope: "col" }, metric)));
      const body = arms.map((arm) => {
        const rows = metrics.map((metric) => mine.find((row) => row.arm === arm && row.metric === metric));
        const cells = rows.map((row, index) => {
          const cell = make("td", { "data-label": metrics[index] });
          if (!row) return cell;
          const twin = mine.find((other) => other.twin && other.metric === row.metric);
          const blocks = row.steps[row.steps.length - 1].blocks;
          const figure = make("span", { class: "figure" }, make("b", {}, row.ratio), " ", make("span", {}, row.interval || T("{1} of 6 blocks for an interval", { 1: blocks })));
          const early = it.phase === "running" ? T("too early") : T("no interval");
          const word = make("span", { class: `pill ${row.class}` }, row.interval || row.twin ? row.word : early);
          const words = make("div", { class: "said-so" }, word, figure, make("span", { class: "note" }, row.medians));
          const ends = [Math.exp(reach), 1, Math.exp(-reach)].map((end) => make("span", {}, `${end.toFixed(2)}×`));
          cell.append(words, make("div", { class: "scaled" }, funnel(row, twin, reach, it.blocks), make("div", {}, ...ends)));
          return cell;
        });
        return make("tr", rows.some((row) => row && row.twin) ? { class: "twin" } : {}, make("th", { scope: "row" }, arm), ...cells);
      });
      const table = make("table", { class: "live-table" }, make("thead", {}, head), make("tbody", {}, ...body));
      return make("div", { class: "scroll" }, table);
    });
    at("estimates").replaceChildren(...tables);
  };

  const noise = (it) => {
    if (!it.noise.length) return;
    const count = Math.max(it.noise.length, 40), high = 70;
    const most = Math.max(5, ...it.noise.map((one) => (one.others || 0) + (one.stolen || 0)));
    const box = draw("svg", { viewBox: `0 0 ${count * 6} ${high}`, class: "noise", preserveAspectRatio: "none", role: "img" });
    const last = it.noise[it.noise.length - 1];
    const refused = it.noise.filter((one) => one.refused).length;
    const share = (part) => part === null ? T("unknown") : `${part.toFixed(1)} %`;
    const shares = { 1: share(last.others), 2: share(last.stolen) };
    const counts = { 1: refused, 2: it.noise.length, 3: most.toFixed(0) };
    const words = `${T("Last trial: other processes {1}, stolen {2}.", shares)} ${T("{1} of {2} trials broke a limit. The axis ends at {3} %.", counts)}`;
    box.setAttribute("aria-label", words);
    it.noise.forEach((one, index) => {
      const others = ((one.others || 0) / most) * high, stolen = ((one.stolen || 0) / most) * high;
      box.append(draw("rect", { class: one.refused ? "refused" : "others", x: index * 6, width: 4.5, y: high - others, height: others }));
      if (stolen > 0) box.append(draw("rect", { class: "stolen", x: index * 6, width: 4.5, y: high - others - stolen, height: stolen }));
    });
    at("noise").replaceChildren(box, make("p", { class: "note" }, words));
  };

  // ---- the whole document
  let latest = null, received = 0;
  const show = (it) => {
    latest = it;
    document.title = `${it.done}/${it.total} · ${T("Roundhouse race")}`;
    say(at("question"), it.question);
    say(at("label"), it.label);
    say(at("baseline"), it.baseline);
    say(at("sentence"), it.sentence || T("Nothing is known yet."));
    const over = it.phase === "over" || it.phase === "stopped";
    say(at("when"), over ? T("Result") : T("So far"));
    at("bar").max = it.total || 1;
    at("bar").value = it.done;
    estimates(it);
    noise(it);
    const news = it.news.length ? [...it.news].reverse() : [T("none")];
    at("news").replaceChildren(...news.map((text) => make("li", { class: "limit" }, text)));
    document.documentElement.dataset.phase = it.phase;
    document.documentElement.dataset.done = it.done;
    document.documentElement.dataset.plan = it.plan;
    clock();
  };
  const clock = () => {
    const it = latest;
    if (!it) return;
    const over = it.phase === "over" || it.phase === "stopped";
    const since = over || !received ? 0 : Date.now() - received;
    const parts = [T("trial {1} of {2}", { 1: it.done, 2: it.total }), T("block {1} of {2}", { 1: it.block, 2: it.blocks })];
    if (it.repeated) parts.push(T("{1} repeated", { 1: it.repeated }));
    parts.push(T("{1} gone", { 1: span(it.elapsed_ms + since) }));
    if (!over && it.left_ms !== null) parts.push(T("about {1} left", { 1: span(Math.max(it.left_ms - since, 0)) }));
    if (it.running) parts.push(T("now {1}", { 1: it.running }));
    if (it.phase === "over") parts.push(T("the race is over"));
    if (it.phase === "stopped") parts.push(T("the race was stopped"));
    if (it.report) parts.push(T("the report is {1}", { 1: it.report }));
    say(at("where"), parts.join(" · "));
  };
  setInterval(clock, 1000);

  // ---- the connection
  const state = (name, text) => {
    document.documentElement.dataset.wire = name;
    say(at("wire"), text);
  };
  const PAUSE = 500;
  let [edition, pause] = ["", PAUSE];
  // The document, if it is new; the server ends after the last one.
  const ask = async () => {
    const reply = await fetch("state.json", { headers: { "If-None-Match": edition } });
    if (reply.status === 304) return null;
    if (!reply.ok) throw new Error(reply.statusText);
    const it = await reply.json();
    edition = reply.headers.get("ETag");
    received = Date.now();
    return it;
  };
  const look = async () => {
    const it = await ask().catch(() => undefined);
    pause = it === undefined ? Math.min(pause * 2, 15000) : PAUSE;
    if (it === undefined) state("lost", T("connection lost, trying again"));
    else state("open", T("connected"));
    if (it) show(it);
    const phase = it ? it.phase : "";
    if (phase === "over" || phase === "stopped") state("over", phase === "over" ? T("finished") : T("stopped"));
    else setTimeout(look, pause);
  };
  look();
})();
