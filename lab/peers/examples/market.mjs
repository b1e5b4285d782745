// The stock market in Node: one event loop.
//
//   node market.mjs PORT BOOK
import { readFileSync } from "node:fs";
import { createServer } from "node:net";

const [port, path] = process.argv.slice(2);
if (!port || !path) {
  console.error("market: expected PORT BOOK");
  process.exit(2);
}

const book = new Map();
for (const line of readFileSync(path, "utf8").split("\n")) {
  const [id, left, price] = line.trim().split(/\s+/).map(Number);
  if (price >= 0) book.set(id, { left, price });
}

function trade(words) {
  const stock = book.get(Number(words[1]));
  const amount = Number(words[2]);
  if (!stock || !(amount >= 1) || !Number.isInteger(amount)) {
    return "error: expected the id of a stock and an amount\n";
  }
  if (words[0] === "sell") {
    stock.left += amount;
    return "[sell] success\n";
  }
  if (stock.left < amount) return "Not enough left stocks\n";
  stock.left -= amount;
  return "[buy] success\n";
}

function show() {
  let text = "";
  for (const [id, { left, price }] of book) text += `${id} ${left} ${price}\n`;
  return text + "\n";
}

// The reply to one request; undefined after the last one.
function answer(request) {
  const words = request.trim().split(/\s+/);
  switch (words[0]) {
    case "show":
      return show();
    case "buy":
    case "sell":
      return trade(words);
    case "":
      return "\n";
    case "exit":
      return undefined;
    default:
      return "error: expected show, buy, sell or exit\n";
  }
}

const server = createServer({ noDelay: true }, (peer) => {
  let rest = "";
  peer.setEncoding("latin1");
  peer.on("error", () => peer.destroy());
  peer.on("data", (bytes) => {
    const requests = (rest + bytes).split("\n");
    rest = requests.pop();
    // Replies to requests that came together leave together.
    let out = "";
    for (const request of requests) {
      const reply = answer(request);
      if (reply === undefined) {
        peer.end(out);
        return;
      }
      out += reply;
    }
    if (out) peer.write(out);
  });
});
server.on("error", (why) => {
  console.error(`market: ${why.message}`);
  process.exit(1);
});
server.listen({ port: Number(port), host: "127.0.0.1", backlog: 4096 });
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => process.exit(0));
