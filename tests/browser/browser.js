// A real Chromium, with nothing of a person's in it.
"use strict";
const { chromium } = require("playwright-core");
const fs = require("fs");
const os = require("os");
const path = require("path");

const CHROMIUM = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find(file => fs.existsSync(file));

/** Runs `body` with a context; everything of it is gone afterwards. */
exports.browse = async function browse(options, body) {
  if (!CHROMIUM) throw new Error("no Chromium: tests/tools installs it");
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), "dbtick-browser-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: CHROMIUM, headless: true, viewport: { width: 1280, height: 900 }, timezoneId: "UTC", locale: "en-GB",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"], ...options,
  });
  try {
    const page = context.pages()[0] || await context.newPage();
    page.setDefaultTimeout(15000);
    const said = [];
    page.on("console", message => { if (["error", "warning"].includes(message.type())) said.push(message.text()); });
    page.on("pageerror", error => said.push(String(error)));
    await body(page, said);
  } finally {
    await context.close();
    fs.rmSync(profile, { recursive: true, force: true });
  }
};
