'use strict';
// Draws recordings of servers at a moment that the reader chooses. All data come from the page.
(() => {
  const all = JSON.parse(document.getElementById('data').textContent);
  const byId = id => document.getElementById(id);
  const end = Math.max(...all.map(it => it.end));
  const name = at => 'client ' + 'ABCDEFGH'[at];
  const ms = us => (us / 1000).toFixed(1) + ' ms';
  const make = (parent, tag, attributes, text) => {
    const svg = parent.namespaceURI.endsWith('svg') || tag === 'svg';
    const node = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return parent.appendChild(node);
  };

  // The words for a client at a moment: where it, or its request, is.
  const state = (client, t) => {
    if (t < client.connect) return ['', 'not yet there'];
    if (t >= client.close) return ['', 'has left'];
    const request = client.requests.filter(it => it.sent <= t).pop();
    if (request && (request.replied === null || t < request.replied)) {
      if (client.accepted !== null && t < client.accepted) return ['queue', `“${request.text}” waits with its connection`];
      if (request.taken !== null && t < request.taken) return ['buffer', `“${request.text}” waits to be received`];
      return [request.taken === null ? 'ring' : 'served', `“${request.text}” is carried out`];
    }
    if (client.accepted !== null && t < client.accepted) return ['queue', 'waits to be accepted'];
    return ['', request ? `has “${request.reply}”` : 'is connected'];
  };

  const WIDTH = 640, LEFT = 96, LANE = 16;
  const x = t => LEFT + (WIDTH - LEFT - 6) * t / end;
  const panels = all.map(it => {
    const busy = it.tasks.map((task, at) => ({ task, at, calls: it.calls.filter(call => call.task === at) }));
    const shown = busy.filter(row => row.calls.some(call => call.kind !== 'wait')).slice(0, 12);
    const panel = make(byId('panels'), 'section', {});
    make(panel, 'h2', { style: 'margin-top:1rem' }, it.engine);
    make(panel, 'p', { class: 'note' }, it.about);
    for (const queue of it.queues) make(panel, 'p', { class: 'note' }, queue);
    const scene = make(panel, 'div', { class: 'scene' });
    const column = title => { const box = make(scene, 'div'); make(box, 'b', {}, title); return make(box, 'div', { style: 'border:0;padding:0' }); };
    const [clients, kernel, workers] = ['Clients', 'Kernel', 'Workers'].map(column);
    const height = (it.clients.length + shown.length) * LANE + 26;
    const svg = make(panel, 'svg', { viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': 'Calls over time' });
    it.clients.forEach((client, at) => {
      const y = at * LANE + 3;
      make(svg, 'text', { x: 2, y: y + 9 }, name(at));
      make(svg, 'rect', { x: x(client.connect), y: y + 4, width: x(Math.min(client.close, end)) - x(client.connect), height: 2, fill: 'var(--faint)' });
      if (client.accepted !== null) make(svg, 'rect', { x: x(client.connect), y, width: Math.max(1, x(client.accepted) - x(client.connect)), height: 10, fill: 'var(--amber)', opacity: .55 });
      for (const request of client.requests) make(svg, 'rect', { x: x(request.sent), y, width: Math.max(1.5, x(request.replied ?? end) - x(request.sent)), height: 10, fill: 'var(--arm0)', opacity: .7 });
    });
    shown.forEach((row, line) => {
      const y = (it.clients.length + line) * LANE + 9;
      make(svg, 'text', { x: 2, y: y + 9 }, row.task.name.slice(0, 15));
      for (const call of row.calls) {
        // A call that takes so long has waited for most of it.
        const thin = call.kind === 'wait' || (call.to - call.from > 1000 && /receive|accept/.test(call.kind));
        const rect = make(svg, 'rect', { class: call.kind, x: x(Math.max(0, call.from)), y: thin ? y + 4 : y, height: thin ? 3 : 10, width: Math.max(.8, x(Math.min(call.to, end)) - x(Math.max(0, call.from))) });
        make(rect, 'title', {}, `${call.name}${call.text}`);
      }
    });
    for (let tick = 0; tick <= end; tick += 20000) make(svg, 'text', { x: x(tick), y: height - 3 }, tick / 1000 + (tick ? '' : ' ms'));
    const cursor = make(svg, 'line', { y1: 0, y2: height - 12, stroke: 'var(--bad)', 'stroke-width': 1.2 });
    svg.addEventListener('click', event => {
      const box = svg.getBoundingClientRect();
      seek(((event.clientX - box.left) / box.width * WIDTH - LEFT) / (WIDTH - LEFT - 6) * end);
    });
    const hidden = it.tasks.length - shown.length;
    make(panel, 'p', { class: 'note' }, `${it.calls.length} system calls: ` + it.counts.map(([call, count]) => `${call} ${count}`).join(', ')
      + (hidden > 0 ? `. ${hidden} more workers only waited.` : '.'));
    return { it, shown, clients, kernel, workers, cursor };
  });

  const box = (parent, kind, text, whole) => make(parent, 'div', { class: 'box ' + kind, title: whole || text }, text);
  const draw = t => {
    for (const { it, shown, clients, kernel, workers, cursor } of panels) {
      [clients, kernel, workers].forEach(part => part.replaceChildren());
      const places = { queue: [], buffer: [], ring: [] };
      it.clients.forEach((client, at) => {
        const [place, text] = state(client, t);
        box(clients, place === 'served' || place === 'ring' ? 'receive' : place ? 'accept' : 'wait', `${name(at)}: ${text}`);
        if (places[place]) places[place].push(name(at));
      });
      const line = (title, list) => box(kernel, list.length ? 'accept' : 'wait', `${title}: ${list.length ? list.join(', ') : 'empty'}`);
      line('accept queue', places.queue);
      line('receive buffers', places.buffer);
      if (it.clients.some(client => client.requests.some(request => request.taken === null && request.replied !== null))) line('ring or unseen', places.ring);
      for (const row of shown) {
        const call = row.calls.filter(it => it.from <= t && t < Math.max(it.to, it.from + 30)).pop();
        const past = row.calls.some(it => it.from <= t), later = row.calls.some(it => it.from > t);
        const rest = !past ? 'not yet there' : later ? 'computes' : 'has ended';
        const whom = call && call.client !== null ? ` for ${name(call.client)}` : '';
        box(workers, call ? call.kind : 'wait', `${row.task.name}: ${call ? call.name + whom : rest}`, call ? call.name + call.text : '');
      }
      cursor.setAttribute('x1', x(t)); cursor.setAttribute('x2', x(t));
    }
  };

  // The moments at which something begins or ends, and the sentence for each.
  const events = [];
  all.forEach(it => {
    const prefix = all.length > 1 ? it.engine + ': ' : '';
    const add = (at, text) => { if (at !== null && at >= 0) events.push({ at, text: prefix + text }); };
    it.clients.forEach((client, number) => {
      const who = name(number);
      add(client.connect, `${who} connects`);
      add(client.accepted, `${who} is accepted`);
      for (const request of client.requests) {
        add(request.sent, `${who} sends “${request.text}”`);
        add(request.taken, `a worker has received “${request.text}” of ${who}`);
        add(request.replied, `${who} has its reply “${request.reply}”`);
      }
      add(client.close, `${who} leaves`);
    });
    for (const call of it.calls) if (call.kind === 'make' || call.kind === 'lock') add(call.from, `${it.tasks[call.task].name} calls ${call.name}`);
  });
  events.sort((a, b) => a.at - b.at);

  let moment = 0, playing = false, last = 0;
  const seek = t => {
    moment = Math.min(end, Math.max(0, t));
    byId('at').value = moment / end * 1000;
    byId('clock').textContent = ms(moment);
    const event = events.filter(it => it.at <= moment).pop();
    if (event) byId('now').textContent = `${ms(event.at)}: ${event.text}.`;
    draw(moment);
  };
  const toggle = on => { playing = on; byId('play').textContent = on ? 'Pause' : 'Play'; if (on) { last = performance.now(); requestAnimationFrame(step); } };
  const step = now => {
    if (!playing) return;
    seek(moment + (now - last) * 1000 / byId('speed').value);
    last = now;
    if (moment >= end) toggle(false); else requestAnimationFrame(step);
  };
  byId('play').addEventListener('click', () => { if (!playing && moment >= end) seek(0); toggle(!playing); });
  byId('at').addEventListener('input', event => seek(event.target.value / 1000 * end));
  byId('next').addEventListener('click', () => { toggle(false); const next = events.find(it => it.at > moment); seek(next ? next.at : end); });
  byId('back').addEventListener('click', () => { toggle(false); const before = events.filter(it => it.at < moment).pop(); seek(before ? before.at : 0); });
  // A link such as motion.html#40 opens the page at 40 ms.
  seek(parseFloat(location.hash.slice(1)) * 1000 || 0);
})();
