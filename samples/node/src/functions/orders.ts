// One function for webhooks, one for queue messages. DATABASE_URL is the database.

import { app, type HttpRequest, type HttpResponseInit } from "@azure/functions";
import { Pool } from "pg";
import { receive, take, type Message } from "../receiver";

const pool = new Pool({ connectionString: process.env.DATABASE_URL });

export async function orders(request: HttpRequest): Promise<HttpResponseInit> {
  const body = Buffer.from(await request.arrayBuffer());
  const header = (name: string): string => request.headers.get(name) ?? "";
  const { status, answer } = await receive(pool, header, body);
  return { status, jsonBody: answer };
}

/** What throws comes again, and after five times goes to order-events-poison. */
export async function orderEvents(message: unknown): Promise<void> {
  const { poller, event, claim_check: claim } = message as Message;
  if (claim) {
    throw new Error("the event is too large for a message: read it from the blob that claim_check names");
  }
  await take(pool, poller, event);
}

app.http("orders", { methods: ["POST"], authLevel: "function", handler: orders });
app.storageQueue("orderEvents", {
  queueName: "order-events",
  connection: "AzureWebJobsStorage",
  handler: orderEvents,
});
