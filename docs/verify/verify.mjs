// Verifies a delivery of dbtick.
//
//     npm install standardwebhooks

import { createHmac, timingSafeEqual } from "node:crypto";
import { createRequire } from "node:module";
import { gunzipSync } from "node:zlib";

// The same as `import { Webhook } from "standardwebhooks"`, and found along NODE_PATH too.
const { Webhook } = createRequire(import.meta.url)("standardwebhooks");

/// What was sent, or an exception. `body` is the Buffer that arrived, before anything has decoded
/// it, and the names of headers are in lower case.
export function verify(secret, headers, body) {
  if (headers["content-encoding"] !== "gzip") {
    return new Webhook(secret).verify(body, headers);
  }
  // Signed are the bytes on the wire; the library takes text only.
  const timestamp = headers["webhook-timestamp"];
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300)) {
    throw new Error("too old, or too new");
  }
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const hmac = createHmac("sha256", key).update(`${headers["webhook-id"]}.${timestamp}.`).update(body);
  const expected = Buffer.from(`v1,${hmac.digest("base64")}`);
  const given = headers["webhook-signature"].split(" ").map((signature) => Buffer.from(signature));
  if (!given.some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected))) {
    throw new Error("no signature matches");
  }
  return JSON.parse(gunzipSync(body));
}

if (process.argv[1] === import.meta.filename) {
  // One line with the headers as JSON, then the body.
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const input = Buffer.concat(chunks);
  const end = input.indexOf("\n");
  const headers = JSON.parse(input.subarray(0, end));
  console.log(JSON.stringify(verify(process.env.WEBHOOK_SECRET, headers, input.subarray(end + 1))));
}
