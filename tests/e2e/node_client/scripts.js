// Libraries that live on scripts, over ioredis: rate-limiter-flexible, redlock, and ioredis' own defineCommand.
// Called by `python3 -m script_clients`, with the server's port.
'use strict';
const Redis = require('ioredis');
const Redlock = require('redlock');
const { RateLimiterRedis } = require('rate-limiter-flexible');

const port = Number(process.argv[2]);
let failed = 0;

function check(what, holds, detail) {
  console.log(`${holds ? 'ok  ' : 'FAIL'}  ${what}${holds ? '' : `: ${detail}`}`);
  failed += holds ? 0 : 1;
}

async function limits(clients) {
  const limiters = clients.map((storeClient) => new RateLimiterRedis({ storeClient, points: 50, duration: 60, keyPrefix: 'rate' }));
  let passed = 0;
  let refused = 0;
  await Promise.all(Array.from({ length: 200 }, (_, at) => limiters[at % limiters.length].consume('user').then(
    () => { passed += 1; },
    (reason) => {
      if (reason instanceof Error) throw reason;
      refused += 1;
    })));
  check('rate-limiter-flexible lets 50 of 200 through', passed === 50 && refused === 150, `${passed} and ${refused}`);
  const left = await limiters[0].get('user');
  check('and knows when the window ends', left.msBeforeNext > 0 && left.msBeforeNext <= 60000, JSON.stringify(left));
}

async function locks(clients) {
  const locker = (client) => new Redlock([client], { retryCount: 1000, retryDelay: 2, retryJitter: 2 });
  let inside = 0;
  let most = 0;
  await Promise.all(clients.map(async (client) => {
    const redlock = locker(client);
    for (let round = 0; round < 25; round += 1) {
      const lock = await redlock.lock('resource', 20000);
      inside += 1;
      most = Math.max(most, inside);
      const value = Number(await client.get('locked') || 0);
      await client.set('locked', value + 1);
      inside -= 1;
      await lock.unlock();
    }
  }));
  check('redlock has one owner at a time', most === 1, String(most));
  const value = Number(await clients[0].get('locked'));
  check('and nothing is lost under it', value === clients.length * 25, String(value));
  const lock = await locker(clients[0]).lock('long', 1000);
  await lock.extend(30000);
  check('a lock is extended', await clients[0].pttl('long') > 1000, 'not longer');
  await clients[0].set('long', 'stolen');
  const error = await lock.unlock().then(() => null, (reason) => reason);
  check('a lock of somebody else is not released', error !== null && await clients[0].get('long') === 'stolen', String(error));
}

async function commands(client) {
  client.defineCommand('addTo', { numberOfKeys: 1, lua: "return redis.call('incrby', KEYS[1], ARGV[1])" });
  const results = await client.pipeline().addTo('sum', 5).addTo('sum', 7).exec();
  check('ioredis defines a command of its own', results[1][1] === 12, JSON.stringify(results));
}

async function main() {
  const clients = Array.from({ length: 4 }, () => new Redis(port));
  await limits(clients);
  await locks(clients);
  await commands(clients[0]);
  clients.forEach((client) => client.disconnect());
  process.exit(failed ? 1 : 0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
