// node tls.js PORT CA CERT KEY: ioredis over TLS with a client certificate.
"use strict";
const fs = require("fs");
const Redis = require("ioredis");

async function main() {
  const [port, ca, cert, key] = process.argv.slice(2);
  const tls = { ca: fs.readFileSync(ca), cert: fs.readFileSync(cert), key: fs.readFileSync(key), servername: "localhost" };
  const options = { port: Number(port), host: "127.0.0.1", tls, maxRetriesPerRequest: 1, retryStrategy: null };
  const [client, listener] = [new Redis(options), new Redis(options)];
  const heard = new Promise((resolve) => listener.on("message", (_, text) => resolve(text)));
  await listener.subscribe("news");
  const value = "x".repeat(1 << 20);
  await client.set("node:large", value);
  const pipeline = client.pipeline();
  for (let number = 0; number < 1000; number++) pipeline.incr("node:count");
  const results = await pipeline.exec();
  await client.publish("news", "hello");
  const good = (await client.getBuffer("node:large")).length === value.length && results[999][1] === 1000 && (await heard) === "hello";
  client.disconnect();
  listener.disconnect();
  console.log(good ? "ok" : "FAIL");
  process.exit(good ? 0 : 1);
}
main().catch((error) => { console.log(`FAIL ${error.message}`); process.exit(1); });
