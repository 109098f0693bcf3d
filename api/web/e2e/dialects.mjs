// Lists in many dialects through the page: the column that the server verifies is the one that was shown.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { strToU8, zipSync } from "fflate";
import { signIn } from "./browser.mjs";
import { asSession, heading, nav, signOut, sweep } from "./steps.mjs";

const table = new URL("../../../coordinator/csvfile/testdata/dialects.json", import.meta.url);
const names = { ",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe" };

/** choose gives the page a file and waits until its first rows are shown. */
async function choose(page, name, buffer) {
  await page.locator("input[type=file]").setInputFiles({ name, mimeType: "text/csv", buffer });
  await page.getByRole("region", { name: "First rows of the list" }).waitFor();
}

const upload = (page) => page.getByRole("button", { name: "Upload", exact: true }).click();

/** ready is the record of the job that an upload on the page became, once its page shows what the server read. */
async function ready(page) {
  await page.getByRole("heading", { name: "Ready to start" }).waitFor();
  return (await asSession(page, "GET", `/v1/verify/bulk/${page.url().split("/").at(-1)}`)).body;
}

/** workbook is an Excel workbook of sheets, [name, rows] each, with texts and numbers. */
function workbook(sheets) {
  const cell = (value, at, row) => {
    const ref = `${String.fromCharCode(65 + at)}${row + 1}`;
    return typeof value === "number" ? `<c r="${ref}"><v>${value}</v></c>` : `<c r="${ref}" t="inlineStr"><is><t>${value}</t></is></c>`;
  };
  const sheet = (rows) =>
    `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>${rows.map((r, i) => `<row r="${i + 1}">${r.map((v, j) => cell(v, j, i)).join("")}</row>`).join("")}</sheetData></worksheet>`;
  const office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
  const files = {
    "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
    "xl/workbook.xml": `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="${office}"><sheets>${sheets.map(([name], i) => `<sheet name="${name}" sheetId="${i + 1}" r:id="rId${i + 1}"/>`).join("")}</sheets></workbook>`,
    "xl/_rels/workbook.xml.rels": `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">${sheets.map((_, i) => `<Relationship Id="rId${i + 1}" Type="${office}/worksheet" Target="worksheets/sheet${i + 1}.xml"/>`).join("")}</Relationships>`,
  };
  for (const [i, [, rows]] of sheets.entries()) files[`xl/worksheets/sheet${i + 1}.xml`] = sheet(rows);
  return Buffer.from(zipSync(Object.fromEntries(Object.entries(files).map(([name, text]) => [name, strToU8(text)]))));
}

/** dialects adds its steps. */
export function dialects(step) {
  step("lists in many dialects are verified by the column that is shown", async ({ page, base, email, password }) => {
    await signIn(page, base, email, password);
    const { users } = (await asSession(page, "GET", "/v1/admin/users")).body;
    const limits = await asSession(page, "PUT", `/v1/admin/users/${users.find((u) => u.email === email).id}/limits`, { bulk_per_hour: 1000 });
    assert.equal(limits.status, 200);
    await nav(page, "Jobs");
    const vectors = JSON.parse(await readFile(table, "utf8"));
    assert.ok(vectors.length >= 16);
    for (const [i, v] of vectors.entries()) {
      const name = `list${i}.csv`;
      await choose(page, name, v.base64 ? Buffer.from(v.base64, "base64") : Buffer.from(v.text));
      await page.getByText(`Delimiter: ${names[v.delimiter]}.`).waitFor();
      const heads = await page.getByRole("region", { name: "First rows of the list" }).locator("th").allTextContents();
      const shown = heads.findIndex((h) => h.endsWith(" addresses"));
      assert.equal(shown + 1, v.column, v.name);
      await upload(page);
      const job = await ready(page);
      const marked = await page.getByRole("region", { name: "First rows as the server reads them" }).locator("th").evaluateAll((ths) => ths.findIndex((th) => th.style.background !== ""));
      assert.equal(marked + 1, v.column, `${v.name}: the server's column is the one that was shown`);
      await nav(page, "Jobs");
      assert.equal(job.delimiter, v.delimiter, v.name);
      assert.equal(job.has_header, v.header, v.name);
      assert.equal(job.email_column, v.header ? heads[shown].replace(/ addresses$/, "") : String(v.column), v.name);
      assert.equal(job.unique_addresses, new Set(v.emails.filter(Boolean)).size, v.name);
    }
  });

  step("JSON lines are shown by their members, of which one is chosen", async ({ page }) => {
    const list = '{"id":1,"home":"ann@home.example","work":"ann@work.example"}\n{"work":"bo@work.example","note":"a, b"}\n';
    await choose(page, "people.jsonl", Buffer.from(list));
    await page.getByText("JSON lines, one object a line.").waitFor();
    const first = page.getByRole("region", { name: "First rows of the list" });
    assert.deepEqual(await first.locator("th").allTextContents(), ["id", "home", "work addresses", "note"]);
    assert.deepEqual(await first.locator("tbody tr").nth(1).locator("td").allTextContents(), ["", "", "bo@work.example", "a, b"]);
    await page.getByRole("combobox", { name: "E-mail column" }).click();
    assert.deepEqual(await page.getByRole("option", { name: /\(\d\)$/ }).allTextContents(), ["id (1)", "home (2)", "work (3)"]);
    await page.getByRole("option", { name: "home (2)" }).click();
    await upload(page);
    const job = await ready(page);
    assert.deepEqual([job.filename, job.email_column, job.total_rows, job.blank_rows], ["people.jsonl", "home", 2, 1]);
    assert.deepEqual(job.preview.columns, ["id", "home", "work", "note"]);
    await nav(page, "Jobs");
  });

  step("a column without addresses is refused, and another is chosen", async ({ page }) => {
    const list = Buffer.from("Name;E-Mail;City\r\nAnn;ann@shop.example;Bonn\r\nBo;bo@shop.example;Graz\r\nCy;cy@shop.example;Wien\r\n");
    await choose(page, "wrong.csv", list);
    const column = page.getByRole("combobox", { name: "E-mail column" });
    await column.click();
    await page.getByRole("option", { name: "Name (1)" }).click();
    await upload(page);
    await page.getByText(/nothing was charged: none of the first 3 cells of the column "Name" \(1\).*"Ann", "Bo", "Cy"/).waitFor();
    await nav(page, "Overview");
    await page.getByRole("button", { name: "Choose another column" }).click();
    await page.getByRole("region", { name: "First rows of the list" }).waitFor();
    assert.equal(await column.inputValue(), "E-Mail (2)");
    assert.equal(await page.getByRole("region", { name: "Uploads" }).count(), 0);
    await upload(page);
    assert.equal((await ready(page)).email_column, "E-Mail");

    await nav(page, "Jobs");
    await choose(page, "meant.csv", list);
    await column.click();
    await page.getByRole("option", { name: "City (3)" }).click();
    await upload(page);
    await page.getByRole("button", { name: "Verify this column anyway" }).click();
    const panel = page.getByRole("region", { name: "Uploads" });
    await panel.getByRole("link", { name: "Open the job" }).click();
    assert.equal((await ready(page)).email_column, "City");
    await panel.getByRole("button", { name: "Dismiss meant.csv" }).click();
  });

  step("what the server read is changed before anything is charged", async ({ page }) => {
    await page.getByText("The addresses are in column City. Delimiter: semicolon").waitFor();
    const before = page.url();
    await page.getByRole("button", { name: "Change this" }).click();
    await page.getByRole("region", { name: "First rows of the list" }).waitFor();
    await upload(page);
    const job = await ready(page);
    assert.equal(job.email_column, "E-Mail");
    assert.deepEqual([job.credits_needed, job.credits_reserved], [3, 0]);
    assert.notEqual(page.url(), before);
    assert.equal((await asSession(page, "GET", `/v1/verify/bulk/${before.split("/").at(-1)}`)).status, 404);
    await sweep(page, new URL(page.url()).origin, [`lists/${job.job_id}`]);
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.getByRole("button", { name: "Start" }).click();
    await page.getByText("completed", { exact: true }).waitFor();
  });

  step("a workbook, pasted addresses and several files are lists too", async ({ page }) => {
    await nav(page, "Jobs");
    const book = workbook([
      ["Notes", [["What", "When"], ["nothing here", 45000]]],
      ["Customers", [["Id", "Mail", "City"], [7, "ann@book.example", "Bonn, Rhein"], [8, "bo@book.example", "Graz"]]],
    ]);
    await choose(page, "customers.xlsx", book);
    await page.getByText('From the sheet "Customers" (2 of 2), the first with addresses.').waitFor();
    await upload(page);
    const job = await ready(page);
    assert.deepEqual([job.filename, job.email_column, job.total_rows], ["customers.csv", "Mail", 2]);
    assert.deepEqual(job.preview.rows[0], ["7", "ann@book.example", "Bonn, Rhein"]);

    await nav(page, "Jobs");
    await page.getByRole("button", { name: "Paste addresses" }).click();
    await page.getByLabel("Addresses").fill("ann@pasted.example, bo@pasted.example;cy@pasted.example\nann@pasted.example");
    await page.getByRole("button", { name: "Use them" }).click();
    await upload(page);
    const pasted = await ready(page);
    assert.deepEqual([pasted.unique_addresses, pasted.duplicate_rows, pasted.has_header], [3, 1, false]);

    await nav(page, "Jobs");
    const file = (name) => ({ name, mimeType: "text/csv", buffer: Buffer.from(`email\nann@${name}.example\n`) });
    await page.locator("input[type=file]").setInputFiles(["one", "two", "three"].map(file));
    for (const [name, left] of [["one", "2 more lists follow"], ["two", "1 more list follows"], ["three", ""]]) {
      await page.getByRole("heading", { level: 2, name }).waitFor();
      if (left) await page.getByText(left).waitFor();
      await upload(page);
    }
    assert.equal((await ready(page)).filename, "three");
    const names = (await asSession(page, "GET", "/v1/verify/bulk?status=ready")).body.jobs.map((j) => j.filename);
    assert.deepEqual(names.slice(0, 3).toSorted(), ["one", "three", "two"]);
    await nav(page, "Jobs");
    await heading(page, "Jobs");
    await signOut(page);
  });
}
