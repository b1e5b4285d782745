// Node: http; port, then NAME=NUMBER.
const options = Object.fromEntries(process.argv.slice(3).map((word) => word.split('=')).map(([k, v]) => [k, +v]));
let count = 0;
require('http').createServer((request, reply) => {
  count += 1;
  if (count === options.crash) throw new Error('out of cheese');
  if (count >= options.hang) return;
  let sum = count;
  for (let unit = 0; unit < (options.work || 0) * 300; unit++) sum = (Math.imul(sum, 31) ^ unit) | 0;
  const fails = count % 100 < (options.fail || 0);
  const send = () => { reply.statusCode = fails ? 500 : 200; reply.end('hello' + (sum & 1)); };
  if (options.sleep) setTimeout(send, options.sleep); else send();
}).listen(+process.argv[2], '127.0.0.1');
