// A person clicks through the page of a real app. Lines on stdout say how far it is.
"use strict";
const assert = require("assert");
const readline = require("readline");
const { browse } = require("./browser.js");

const [url, key, out] = process.argv.slice(2);
const say = step => console.log(step);
const told = new Promise(resolve => readline.createInterface({ input: process.stdin }).once("line", resolve));

browse({ colorScheme: "light" }, async (page, said) => {
  const sent = [];
  page.on("request", request => sent.push(request));
  await page.goto(`${url}?code=${key}`);

  // The list, and into the poller.
  await page.getByRole("heading", { name: /poller/i, level: 1 }).waitFor();
  await page.getByRole("link", { name: "orders", exact: true }).last().click();
  await page.getByRole("heading", { name: "orders", level: 1 }).waitFor();
  assert.strictEqual(await page.evaluate(() => document.activeElement.tagName), "H1");
  assert.match(page.url(), /#orders$/);

  // What a receiver said is text, whatever it is.
  await page.getByText("<script>window.owned = 1</script>").first().waitFor();
  assert.strictEqual(await page.evaluate(() => window.owned), undefined);
  await page.screenshot({ path: `${out}/walk-detail.png`, fullPage: true });

  // Pause, with a reason, by keyboard.
  await page.getByRole("button", { name: "Pause", exact: true }).focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("heading", { name: "Pause orders?" }).waitFor();
  assert.strictEqual(await page.evaluate(() => document.activeElement.id), "ask-reason");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await dialog.getByLabel("Reason, for the audit trail").fill("the receiver <b>moves</b>");
  await page.screenshot({ path: `${out}/walk-pause.png` });
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
  await page.getByText("the receiver <b>moves</b>").first().waitFor();
  say("paused");

  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await dialog.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  say("resumed");

  // A row of the quarantine is shown only when it is asked for.
  const rows = page.locator("table.cases tbody tr");
  await rows.nth(1).waitFor();
  assert.strictEqual(await rows.count(), 2);
  assert(!(await page.content()).includes("canary-row-data"));
  await rows.first().getByRole("button", { name: /Show/ }).click();
  await page.getByText("canary-row-data").waitFor();
  await page.getByRole("button", { name: "Close" }).click();

  // Discarding needs the name of the poller.
  await rows.first().getByRole("button", { name: /Discard/ }).click();
  const yes = dialog.getByRole("button", { name: "Discard" });
  assert(await yes.isDisabled());
  await dialog.getByLabel("Reason, for the audit trail").fill("a test order");
  await dialog.getByLabel("Type orders to confirm").fill("order");
  assert(await yes.isDisabled());
  await dialog.getByLabel("Type orders to confirm").fill("orders");
  await page.screenshot({ path: `${out}/walk-discard.png` });
  await yes.click();
  await rows.nth(1).waitFor({ state: "detached" });
  say("discarded");

  // Back, where what happens elsewhere is seen without a reload, and nothing moves under the pointer.
  await page.getByRole("link", { name: "All pollers" }).click();
  const row = page.locator("table.pollers tbody tr");
  await row.waitFor();
  const before = await row.boundingBox();
  const asOf = await page.locator("#asof").textContent();
  await page.locator("table.pollers a.name").focus();
  const seen = await page.locator("table.pollers svg.spark").getAttribute("aria-label");
  say("watching");
  await page.waitForFunction(text => document.querySelector("table.pollers svg.spark").getAttribute("aria-label") !== text, seen);
  assert.notStrictEqual(await page.locator("#asof").textContent(), asOf);
  assert.strictEqual(await page.evaluate(() => document.activeElement.className), "name");
  assert.deepStrictEqual(await row.boundingBox(), before);
  assert(await page.locator("#stale").isHidden());
  say("fresh");

  // The app is gone: what is shown says that it is old.
  await told;
  await page.locator("#stale").waitFor({ state: "visible" });
  assert.match(await page.locator("#stale").textContent(), /what you see is old: the app cannot be reached/);
  await page.screenshot({ path: `${out}/stale.png` });
  const connection = said.filter(line => !line.includes("ERR_CONNECTION_REFUSED"));
  assert.deepStrictEqual(connection, [], "nothing is complained about");

  // The key went to where the page came from, in a header.
  for (const request of sent.slice(1).filter(request => request.url().startsWith("http"))) {
    assert(request.url().startsWith(`${url}/`), request.url());
    assert(!request.url().includes(key), request.url());
    assert.strictEqual(request.headers()["x-functions-key"], key);
  }
}).then(() => process.exit(0), error => { console.error("walk failed", error); process.exit(1); });
