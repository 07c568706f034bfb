// Tests the status page of a running host in Chromium: node page.mjs URL CHROMIUM PLUGIN KEY
//
// Checks, in light and dark colours and at two widths: accessibility (axe), nothing from elsewhere, no script of others, no scrolling
// sideways. Then the updates, the keyboard, and the page without scripts. Prints what is wrong, and exits with 1 if anything is.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const MAX_BYTES = 300 * 1024;
const TIMEOUT = 30_000;

const [url, executablePath, plugin, key] = process.argv.slice(2);
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const problems = [];

function expect(condition, problem) {
  if (!condition) {
    problems.push(problem);
  }
}

// Runs axe in a world of its own, which the page's content security policy does not concern.
async function violations(page) {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId: contextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
  const expression = `${axe}; axe.run().then((results) => JSON.stringify(results.violations.map((violation) =>
    violation.id + ": " + violation.nodes.slice(0, 3).map((node) => node.html).join(" "))))`;
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
    contextId, expression, awaitPromise: true, returnByValue: true,
  });
  await session.detach();
  return exceptionDetails === undefined ? JSON.parse(result.value) : [`axe failed: ${exceptionDetails.text}`];
}

// Opens pages in one kind of browser window, and collects what they should not do.
async function check(browser, options, test) {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(TIMEOUT);
  const page = await context.newPage();
  const name = JSON.stringify(options);
  page.on("console", (message) => expect(message.type() !== "error", `${name}: ${page.url()}: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(`${name}: ${page.url()}: ${error}`));
  page.on("dialog", (dialog) => {
    problems.push(`${name}: ${page.url()}: a script of others runs: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => expect(request.url().startsWith(url), `${name}: request to ${request.url()}`));
  try {
    await test(page, name);
  } catch (error) {
    problems.push(`${name}: ${page.url()}: ${error}`);
  }
  await context.close();
}

function isLive(page) {
  return page.waitForFunction(() => document.getElementById("updates").textContent === "Live");
}

async function checkAppearance(page, name) {
  await page.goto(url);
  const hostile = await page.$$eval("tbody th a", (links) => links.map((link) => [link.textContent, link.getAttribute("href")])
    .filter(([text]) => !/^[a-z0-9-]+$/.test(text)));
  expect(hostile.length >= 3, `${name}: the hostile names are not in the overview: ${JSON.stringify(hostile)}`);
  const paths = ["/", "/?sort=-errors&state=failed", `/plugins/${plugin}`, `/plugins/${plugin}/keys/${key}`];
  for (const path of [...paths, ...hostile.map(([, href]) => href)]) {
    await page.goto(url + path);
    await isLive(page);
    for (const violation of await violations(page)) {
      problems.push(`${name}: ${path}: ${violation}`);
    }
    const excess = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    expect(excess <= 0, `${name}: ${path} is ${excess} pixels too wide`);
    const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;
    expect(!hidden.test(await page.content()), `${name}: ${path} has characters that hide or reorder text`);
  }
}

async function checkUpdates(page, name) {
  await page.goto(url);
  await isLive(page);
  await page.keyboard.press("Tab");
  const first = await page.evaluate(() => document.activeElement.textContent);
  expect(first === "Skip to the content", `${name}: the first Tab leads to ${first}`);
  await page.fill("input[name=q]", "typed");
  const link = page.locator("tbody th a").first();
  await link.focus();
  const href = await link.getAttribute("href");
  // The content is replaced: what was added to the old one is gone.
  await page.evaluate(() => document.querySelector("tbody").append(document.createElement("tr")));
  const rows = await page.locator("tbody tr").count();
  await page.waitForFunction((count) => document.querySelectorAll("tbody tr").length < count, rows);
  expect(await page.inputValue("input[name=q]") === "typed", `${name}: an update removed what was typed`);
  const focused = await page.evaluate(() => document.activeElement.getAttribute("href"));
  expect(focused === href, `${name}: an update moved the focus to ${focused}`);
  await page.click("#pause");
  expect(await page.textContent("#updates") === "Paused", `${name}: the updates do not pause`);
  // Without the stream, the page is fetched at intervals.
  await page.route("**/page/events*", (route) => route.fulfill({ status: 204 }));
  await page.click("#pause");
  await page.waitForFunction(() => document.getElementById("updates").textContent === "Updated every 5 seconds");
}

async function checkWithoutScripts(page, name) {
  const response = await page.goto(url);
  const bytes = (await response.body()).length;
  expect(bytes <= MAX_BYTES, `${name}: the overview has ${bytes} bytes`);
  console.log(`page-test: the overview has ${bytes} bytes, and took ${Math.round(response.request().timing().responseEnd)} ms`);
  await page.fill("input[name=q]", plugin);
  await page.click("form button");
  await page.click(`tbody th a[href="/plugins/${plugin}"]`);
  await page.fill("input[name=key]", key);
  await page.click("form button");
  expect(new URL(page.url()).pathname === `/plugins/${plugin}/keys/${key}`, `${name}: the form leads to ${page.url()}`);
  expect(await page.locator(".verdict strong").count() === 1, `${name}: the page of the key has no verdict`);
  expect(await page.locator("noscript a").count() === 1, `${name}: there is no link to reload the page`);
}

const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
const browser = await chromium.launch({ executablePath, args });
for (const colorScheme of ["light", "dark"]) {
  for (const width of [390, 1440]) {
    await check(browser, { colorScheme, viewport: { width, height: 900 } }, checkAppearance);
  }
}
await check(browser, {}, checkUpdates);
await check(browser, { javaScriptEnabled: false }, checkWithoutScripts);
await browser.close();
for (const problem of new Set(problems)) {
  console.error(`page-test: ${problem}`);
}
process.exitCode = problems.length === 0 ? 0 : 1;
