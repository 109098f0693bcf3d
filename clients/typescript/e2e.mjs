// Uses the client as tests/clients asks for, and prints what came of it. The compiled client is the second argument.
import { openAsBlob } from "node:fs";

const ask = JSON.parse(process.argv[2]);
const { Client, ProbityError, WebhookError, readWebhook } = await import(process.argv[3]);

const client = new Client(ask.url, ask.key);
const single = await client.verify(ask.address, { details: true });
const batch = await client.verifyBatch([ask.address, "no address"]);
let last = [];
const job = await client.upload(await openAsBlob(ask.list), {
  filename: "list.csv",
  parts: { details: "true" },
  progress: (sent, total) => (last = [sent, total]),
});
const ended = await client.wait(job.job_id);
const large = await client.upload(await openAsBlob(ask.large), {
  filename: "large.csv",
  parts: { start: "false" },
  progress: (sent, total) => (last = [sent, total]),
});

async function count(rows) {
  let n = 0;
  for await (const _ of rows) n++;
  return n;
}

async function thrown(type, promise) {
  try {
    await promise;
  } catch (error) {
    if (error instanceof type) return error;
    throw error;
  }
}

const refused = await thrown(ProbityError, new Client(ask.url, "wrong").verify(ask.address));
const { headers, body, secret } = ask.webhook;
const event = await readWebhook(new Headers(headers), body, [secret]);
const forged = await thrown(WebhookError, readWebhook(new Headers(headers), `${body} `, [secret]));
console.log(
  JSON.stringify({
    single: single.status,
    control: single.details.control.kind,
    batch: batch.map((result) => result.status),
    sent_whole: last[0] === last[1],
    large: large.job_id,
    job: ended.job_id,
    ended: ended.status,
    rows: await count(client.rows(job.job_id)),
    valid: await count(client.rows(job.job_id, "VALID")),
    refused: refused?.status,
    event: event.event,
    forged: forged ? "refused" : "read",
  }),
);
