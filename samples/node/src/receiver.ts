// Takes every event of dbtick once, although events come at least once. PostgreSQL holds what was taken; the tables
// are in tables.sql.

import { createHmac, timingSafeEqual } from "node:crypto";
import { gunzipSync } from "node:zlib";
import type { Pool, PoolClient } from "pg";

export interface Event {
  id: string;
  op: "upsert" | "delete";
  key: Record<string, unknown>;
  data: Record<string, unknown> | null;
}

export interface Batch {
  poller: string;
  batch_id: string;
  events: Event[];
}

/** A message of a queue: one event, or where to find it. */
export interface Message {
  poller: string;
  event: Event;
  claim_check?: { container: string; blob: string };
}

export interface Answer {
  failed: { id: string; reason: string; retry: boolean }[];
}

/** The event is wrong, and stays so. */
export class Never extends Error {}

/** Your effect. The copy could be written twice; the count could not, and is safe all the same. */
async function apply(client: PoolClient, poller: string, event: Event): Promise<void> {
  const row = [poller, JSON.stringify(event.key)];
  if (event.op === "delete") {
    await client.query("DELETE FROM copies WHERE poller = $1 AND key = $2", row);
  } else if (event.data?.status === "impossible") {
    throw new Never("no order has this status");
  } else {
    await client.query(
      `INSERT INTO copies (poller, key, data) VALUES ($1, $2, $3)
       ON CONFLICT (poller, key) DO UPDATE SET data = excluded.data`,
      [...row, JSON.stringify(event.data)],
    );
  }
  await client.query(
    `INSERT INTO changes (poller, key, count) VALUES ($1, $2, 1)
     ON CONFLICT (poller, key) DO UPDATE SET count = changes.count + 1`,
    row,
  );
}

/**
 * Whether the event is new. Its id and its effect are one transaction: both are kept, or neither. Who takes the same
 * event at the same time waits at the insert, and finds it taken.
 */
export async function take(pool: Pool, poller: string, event: Event): Promise<boolean> {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const seen = "INSERT INTO processed_events (id) VALUES ($1) ON CONFLICT DO NOTHING";
    const isNew = (await client.query(seen, [event.id])).rowCount === 1;
    if (isNew) await apply(client, poller, event);
    await client.query("COMMIT");
    client.release();
    return isNew;
  } catch (why) {
    // A connection that cannot even roll back is not used again.
    await client.query("ROLLBACK").then(() => client.release(), (broken: Error) => client.release(broken));
    throw why;
  }
}

/** Every event that the answer does not name has been taken. */
export async function takeBatch(pool: Pool, batch: Batch): Promise<Answer> {
  const failed: Answer["failed"] = [];
  const held = new Set<string>();
  for (const event of batch.events) {
    const key = JSON.stringify(event.key);
    try {
      // A later version of a row must not overtake one that comes again.
      if (held.has(key)) throw new Error("an earlier event of this row comes again");
      await take(pool, batch.poller, event);
    } catch (why) {
      const retry = !(why instanceof Never);
      if (retry) held.add(key);
      failed.push({ id: event.id, reason: (why as Error).message, retry });
    }
  }
  return { failed };
}

/** By Standard Webhooks, over the bytes as they arrived. */
export function isSigned(secret: string, header: (name: string) => string, body: Buffer): boolean {
  const timestamp = header("webhook-timestamp");
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp || NaN)) <= 300)) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const hmac = createHmac("sha256", key).update(`${header("webhook-id")}.${timestamp}.`).update(body);
  const expected = Buffer.from(`v1,${hmac.digest("base64")}`);
  const given = header("webhook-signature").split(" ").map((one) => Buffer.from(one));
  return given.some((one) => one.length === expected.length && timingSafeEqual(one, expected));
}

/** The status and the answer to a request. With WEBHOOK_SECRET set, what is not signed with it is refused. */
export async function receive(
  pool: Pool,
  header: (name: string) => string,
  body: Buffer,
): Promise<{ status: number; answer: object }> {
  const secret = process.env.WEBHOOK_SECRET;
  if (secret && !isSigned(secret, header, body)) {
    return { status: 401, answer: { error: "not signed with our key" } };
  }
  const text = header("content-encoding") === "gzip" ? gunzipSync(body) : body;
  return { status: 200, answer: await takeBatch(pool, JSON.parse(text.toString()) as Batch) };
}
