// Lists in many dialects through the page: the column that the server verifies is the one that was shown.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { signIn } from "./browser.mjs";
import { asSession, nav, signOut } from "./steps.mjs";

const table = new URL("../../../coordinator/csvfile/testdata/dialects.json", import.meta.url);
const names = { ",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe" };

/** choose gives the page a file and waits until its first rows are shown. */
async function choose(page, name, buffer) {
  await page.locator("input[type=file]").setInputFiles({ name, mimeType: "text/csv", buffer });
  await page.getByRole("region", { name: "First rows of the list" }).waitFor();
}

const upload = (page) => page.getByRole("button", { name: "Upload and verify" }).click();

/** accepted is the record of the job that an upload on the page became. */
async function accepted(page, name) {
  const panel = page.getByRole("region", { name: "Uploads" });
  await panel.getByRole("link", { name: "Open the job" }).waitFor();
  const href = await panel.getByRole("link", { name: "Open the job" }).getAttribute("href");
  await panel.getByRole("button", { name: `Dismiss ${name}` }).click();
  return (await asSession(page, "GET", `/v1/verify/bulk/${href.split("/").at(-1)}`)).body;
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
      const job = await accepted(page, name);
      assert.equal(job.delimiter, v.delimiter, v.name);
      assert.equal(job.has_header, v.header, v.name);
      assert.equal(job.email_column, v.header ? heads[shown].replace(/ addresses$/, "") : String(v.column), v.name);
      assert.equal(job.unique_addresses, new Set(v.emails.filter(Boolean)).size, v.name);
    }
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
    assert.equal((await accepted(page, "wrong.csv")).email_column, "E-Mail");

    await choose(page, "meant.csv", list);
    await column.click();
    await page.getByRole("option", { name: "City (3)" }).click();
    await upload(page);
    await page.getByRole("button", { name: "Verify this column anyway" }).click();
    assert.equal((await accepted(page, "meant.csv")).email_column, "City");
    await signOut(page);
  });
}
