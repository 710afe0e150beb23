// Calls the functions of samples/node, compiled, as their worker does: HTTP requests, and messages of a queue.
//
//     node functions.cjs DIST    # prints the port that it listens at

const http = require("node:http");
const path = require("node:path");
const { createRequire } = require("node:module");

const file = path.resolve(process.argv[2], "functions/orders.js");
const { HttpRequest, HttpResponse } = createRequire(file)("@azure/functions");
const { orders, orderEvents } = require(file);

async function call(url, headers, body) {
  if (url === "/queue") {
    await orderEvents(JSON.parse(body.toString()));
    return new HttpResponse({ status: 200 });
  }
  const request = new HttpRequest({
    method: "POST",
    url: `http://localhost${url}`,
    headers,
    body: { bytes: body },
  });
  return new HttpResponse(await orders(request));
}

const server = http.createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  try {
    const answer = await call(request.url, request.headers, Buffer.concat(parts));
    response.writeHead(answer.status, { "content-type": "application/json" });
    response.end(Buffer.from(await answer.arrayBuffer()));
  } catch (why) {
    // The host would give the message again.
    response.writeHead(500);
    response.end(String(why));
  }
});
server.listen(0, "127.0.0.1", () => console.log(`port ${server.address().port}`));
