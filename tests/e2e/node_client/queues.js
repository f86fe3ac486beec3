// Queues of jobs that live on scripts: bullmq and bee-queue. Called by `python3 -m job_queues`, with the server's port.
// Adds jobs and works on them, and prints `ack LIBRARY NUMBER` when one was accepted, `done LIBRARY NUMBER` when it came out.
// A line on standard input ends the adding; the end of standard input ends all.
'use strict';
const { Queue, Worker } = require('bullmq');
const Bee = require('bee-queue');

const port = Number(process.argv[2]);
const connection = { host: '127.0.0.1', port, maxRetriesPerRequest: null, retryStrategy: () => 50 };
let adding = true;

const say = (what, library, number) => process.stdout.write(`${what} ${library} ${number}\n`);
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
// A connection that was lost is made anew; what was asked meanwhile is of no interest.
const ignore = () => {};

async function add(library, one, renew = ignore) {
  for (let number = 0; adding; number += 1) {
    try {
      // A client may wait for ever for the answer to what it asked before the server was killed.
      const refused = new Promise((_, reject) => { setTimeout(reject, 1000, new Error('no answer')); });
      await Promise.race([one(number), refused]);
      say('ack', library, number);
    } catch (error) {
      await pause(50);
      renew();
    }
    await pause(50);
  }
}

// Some take long, so that others wait when the server is killed.
async function work(library, job) {
  await pause(job.data.number % 10 === 5 ? 300 : 10);
  say('done', library, job.data.number);
}

async function bullmq() {
  const queue = new Queue('bull', { connection });
  const worker = new Worker('bull', (job) => work('bullmq', job), {
    connection, concurrency: 1, lockDuration: 1000, stalledInterval: 1000, maxStalledCount: 100, runRetryDelay: 50, drainDelay: 1,
  });
  queue.on('error', ignore);
  worker.on('error', ignore);
  await add('bullmq', (number) => queue.add('job', { number }));
}

async function bee() {
  const settings = { redis: { host: '127.0.0.1', port }, stallInterval: 1000, nearTermWindow: 1000 };
  let queue;
  let worker;
  // Its clients do not come back when a connection is lost: others take their place.
  const renew = () => {
    [queue, worker].forEach((old) => old && old.close(10).then(ignore, ignore));
    queue = new Bee('bee', { ...settings, isWorker: false });
    worker = new Bee('bee', { ...settings, getEvents: false, sendEvents: false });
    queue.on('error', ignore);
    worker.on('error', ignore);
    worker.process(1, (job) => work('bee-queue', job));
  };
  renew();
  setInterval(() => worker.checkStalledJobs().then(ignore, ignore), 500);
  await add('bee-queue', (number) => queue.createJob({ number }).retries(100).save(), renew);
}

process.on('unhandledRejection', ignore);
process.on('uncaughtException', ignore);
process.stdin.on('data', () => { adding = false; });
process.stdin.on('end', () => process.exit(0));
const stopped = (error) => {
  console.error(error);
  process.exit(1);
};
bullmq().catch(stopped);
bee().catch(stopped);
