// The page with an app in every state of health, as pictures, in every light.
"use strict";
const assert = require("assert");
const fs = require("fs");
const { browse } = require("./browser.js");
const fixture = require("./fixture.js");

const [url, key, out] = process.argv.slice(2);
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true };
const LOOKS = [
  ["list-light", { colorScheme: "light" }, ""],
  ["list-dark", { colorScheme: "dark" }, ""],
  ["list-phone", { colorScheme: "light", ...PHONE }, ""],
  ["detail-light", { colorScheme: "light" }, "#payments"],
  ["detail-dark", { colorScheme: "dark" }, "#payments"],
  ["detail-phone", { colorScheme: "dark", ...PHONE }, "#payments"],
  ["hostile", { colorScheme: "light" }, "#hostile"],
];

async function look(name, options, hash) {
  const answers = fixture();
  fs.writeFileSync(`${out}/fixture.json`, JSON.stringify(answers));
  await browse(options, async (page, said) => {
    // The page and its policy are the handler's; only the answers are ours.
    await page.route("**/api/dbtick/checkpoints**", route => {
      const [, poller, part] = new URL(route.request().url()).pathname.replace(/^.*\/api\/dbtick\//, "").split("/");
      route.fulfill({ json: part ? answers.quarantine[poller] : poller ? answers.details[poller] : answers.app });
    });
    await page.route("**/api/dbtick/orphans", route => route.fulfill({ json: answers.stuck }));
    await page.goto(`${url}?code=${key}${hash}`);
    await page.locator(hash ? ".facts" : "table.pollers").waitFor();
    if (hash === "#payments") await page.locator("table.cases tbody tr").first().waitFor();
    await page.screenshot({ path: `${out}/${name}.png`, fullPage: true });

    const { wide, owned, unnamed } = await page.evaluate(() => ({
      wide: document.documentElement.scrollWidth - innerWidth, owned: window.owned,
      unnamed: [...document.querySelectorAll("button, a, input")].filter(it => it.checkVisibility() && !(it.textContent.trim() || it.getAttribute("aria-label") || it.labels?.length)).length,
    }));
    assert(wide <= 0, `${name}: ${wide} pixels too wide`);
    assert.strictEqual(owned, undefined, "text of a receiver was run");
    assert.strictEqual(unnamed, 0, "something has no name for a screen reader");
    assert.deepStrictEqual(said, [], name);
    if (!hash) {
      // Ten seconds: the first screen names what is stuck, why, and what to do.
      const first = page.getByRole("listitem").filter({ hasText: "invoices" });
      await first.getByText("password authentication failed").waitFor();
      await first.getByRole("button", { name: "Copy the command dbtick check" }).waitFor();
      assert((await first.boundingBox()).y < 300);
      assert.match(await page.title(), /\(2 stuck\)/);
      await page.getByRole("region", { name: "Stuck work" }).getByText("stock-2024", { exact: true }).waitFor();
    }
    if (hash === "#hostile") {
      assert(await page.getByText(fixture.HOSTILE).count() > 5);
      assert.strictEqual(await page.locator("main script, main img").count(), 0);
    }
  });
}

(async () => {
  for (const one of LOOKS) await look(...one);
  console.log("looked");
})().then(() => process.exit(0), error => { console.error("walk failed", error); process.exit(1); });
