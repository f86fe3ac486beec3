// node smoke.js PORT: every command built, through ioredis. Ends with `N passed, N failed`.
"use strict";
const assert = require("node:assert");
const Redis = require("ioredis");

const port = Number(process.argv[2]);
let passed = 0;
let failed = 0;

// One named step; an exception fails it and the next one goes on.
async function step(name, body) {
  try {
    await body();
    passed += 1;
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}: ${error.message}`);
  }
}

// [name, expected reply, command, ...arguments]; a function checks instead of comparing.
const rows = [
  ["FLUSHALL", "OK", "flushall"],
  ["SET", "OK", "set", "s", "hello"],
  ["GET", "hello", "get", "s"],
  ["SET NX", null, "set", "s", "x", "NX"],
  ["SETNX", 1, "setnx", "s2", "v"],
  ["SETEX", "OK", "setex", "se", 100, "v"],
  ["PSETEX", "OK", "psetex", "pse", 100000, "v"],
  ["GETSET", "v", "getset", "s2", "w"],
  ["GETDEL", "w", "getdel", "s2"],
  ["GETEX", "v", "getex", "se", "EX", 200],
  ["APPEND", 11, "append", "s", " world"],
  ["STRLEN", 11, "strlen", "s"],
  ["GETRANGE", "world", "getrange", "s", -5, -1],
  ["SUBSTR", "hello", "substr", "s", 0, 4],
  ["SETRANGE", 11, "setrange", "s", 6, "redis"],
  ["MSET", "OK", "mset", "m1", 1, "m2", 2],
  ["MGET", ["1", "2", null], "mget", "m1", "m2", "no"],
  ["MSETNX", 0, "msetnx", "m1", 9, "m3", 3],
  ["INCR", 1, "incr", "n"],
  ["INCRBY", 10, "incrby", "n", 9],
  ["DECR", 9, "decr", "n"],
  ["DECRBY", 5, "decrby", "n", 4],
  ["INCRBYFLOAT", "3.5", "incrbyfloat", "f", 3.5],
  ["LCS", "l", "lcs", "s", "f2"],
  ["EXISTS", 2, "exists", "s", "n", "no"],
  ["TOUCH", 1, "touch", "s", "no"],
  ["TYPE", "string", "type", "s"],
  ["RENAME", "OK", "rename", "m1", "m9"],
  ["RENAMENX", 0, "renamenx", "m9", "m2"],
  ["COPY", 1, "copy", "m2", "m4"],
  ["MOVE", 1, "move", "m4", 1],
  ["DEL", 1, "del", "m9", "no"],
  ["UNLINK", 1, "unlink", "m2"],
  ["OBJECT ENCODING", "int", "object", "encoding", "n"],
  ["EXPIRE", 1, "expire", "s", 100],
  ["TTL", (v) => assert(v > 98 && v <= 100), "ttl", "s"],
  ["PEXPIRE", 1, "pexpire", "s", 50000],
  ["PTTL", (v) => assert(v > 48000 && v <= 50000), "pttl", "s"],
  ["EXPIREAT", 1, "expireat", "s", 4102444800],
  ["EXPIRETIME", 4102444800, "expiretime", "s"],
  ["PEXPIREAT", 1, "pexpireat", "s", 4102444800123],
  ["PEXPIRETIME", 4102444800123, "pexpiretime", "s"],
  ["PERSIST", 1, "persist", "s"],
  ["KEYS", (v) => assert(v.includes("s")), "keys", "*"],
  ["SCAN", (v) => assert.equal(v[0].length > 0, true), "scan", 0, "COUNT", 1000],
  ["RANDOMKEY", (v) => assert(v.length > 0), "randomkey"],
  ["DBSIZE", (v) => assert(v >= 4), "dbsize"],
  ["PING", "PONG", "ping"],
  ["ECHO", "hi", "echo", "hi"],
  ["SELECT", "OK", "select", 0],
  ["SWAPDB", "OK", "swapdb", 2, 3],
  ["CLIENT SETNAME", "OK", "client", "SETNAME", "smoke"],
  ["CLIENT GETNAME", "smoke", "client", "GETNAME"],
  ["CLIENT ID", (v) => assert(v > 0), "client", "ID"],
  ["CONFIG GET", (v) => assert.equal(v[0], "maxmemory"), "config", "GET", "maxmemory"],
  ["COMMAND COUNT", (v) => assert(v > 50), "command", "COUNT"],
  ["INFO", (v) => assert(v.includes("redis_version:7.")), "info"],
  ["TIME", (v) => assert.equal(v.length, 2), "time"],
  ["FLUSHDB", "OK", "flushdb"],
];

async function main() {
  const redis = new Redis({ port, host: "127.0.0.1", maxRetriesPerRequest: 1 });
  redis.on("error", () => {});
  for (const [name, expected, command, ...args] of rows) {
    await step(name, async () => {
      if (name === "LCS") await redis.set("f2", "xlx");
      const reply = await redis.call(command, ...args);
      if (typeof expected === "function") expected(reply);
      else assert.deepStrictEqual(reply, expected);
    });
  }
  await step("MULTI/EXEC", async () => {
    const replies = await redis.multi().set("t", 1).incr("t").get("t").exec();
    assert.deepStrictEqual(replies, [[null, "OK"], [null, 2], [null, "2"]]);
  });
  await step("WATCH", async () => {
    const other = redis.duplicate();
    await redis.watch("t");
    await other.set("t", "changed");
    assert.strictEqual(await redis.multi().set("t", "lost").exec(), null);
    assert.strictEqual(await redis.get("t"), "changed");
    await other.quit();
  });
  await step("DISCARD and UNWATCH", async () => {
    await redis.watch("t");
    assert.strictEqual(await redis.unwatch(), "OK");
    await redis.multi({ pipeline: false });
    await redis.set("t", "no");
    assert.strictEqual(await redis.discard(), "OK");
    assert.strictEqual(await redis.get("t"), "changed");
  });
  await step("pipeline of 10,000", async () => {
    const pipeline = redis.pipeline();
    for (let i = 0; i < 10000; i += 1) pipeline.set(`p${i}`, `value ${i}`);
    assert((await pipeline.exec()).every(([error, reply]) => error === null && reply === "OK"));
    assert.strictEqual(await redis.get("p9999"), "value 9999");
  });
  await step("scanStream sees every key", async () => {
    const seen = new Set();
    for await (const page of redis.scanStream({ match: "p*", count: 500 })) page.forEach((k) => seen.add(k));
    assert.strictEqual(seen.size, 10000);
  });
  await step("binary values", async () => {
    const value = Buffer.from([0, 255, 13, 10, 36]);
    await redis.set("bin", value);
    assert.deepStrictEqual(await redis.getBuffer("bin"), value);
  });
  await step("QUIT", async () => assert.strictEqual(await redis.quit(), "OK"));
  console.log(`smoke, ioredis: ${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

main();
