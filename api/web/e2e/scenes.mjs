// What pages show once something was done on them, for the pictures of all: [name, what to do] in this order. The last ones are
// somebody's who has nothing yet.
import { signIn } from "./browser.mjs";
import { heading, signOut } from "./steps.mjs";

export function scenes(base, { list, job, fair, paused, bo }) {
  const at = (place) => (page) => page.goto(`${base}/app/${place}`);
  const button = (page, name) => page.getByRole("button", { name, exact: true }).click();
  const verify = (email) => async (page) => {
    await at("verify")(page);
    await page.getByLabel("E-mail address").fill(email);
    await button(page, "Verify");
    await page.getByRole("heading", { name: "Evidence" }).waitFor();
  };
  const address = list.match(/[^,"\s]+@gmail.com/)[0];
  return [
    ["job", at(`lists/${job}`)],
    ["job-paused", at(`lists/${paused}`)],
    ["job-callback", at(`lists/${fair}?tab=callback`)],
    [
      "job-rows",
      async (page) => {
        await page.getByRole("tab", { name: "Rows" }).click();
        await page.getByLabel("Search by e-mail or domain").fill("gmail");
        await button(page, "Search");
        await page.getByRole("region", { name: "Rows found" }).waitFor();
      },
    ],
    ["job-none", at("lists/0123456789abcdef0123456789abcdef")],
    ["verify-answer", verify(address)],
    ["verify-typo", verify("ann@gmial.com")],
    [
      "lists-preview",
      async (page) => {
        await at("lists")(page);
        await page.locator("input[type=file]").setInputFiles({ name: "customers.csv", mimeType: "text/csv", buffer: Buffer.from(list) });
        await page.getByRole("region", { name: "First rows of the list" }).waitFor();
        await page.getByRole("button", { name: "More options" }).click();
        await page.getByLabel("Callback URL").fill("https://example.com/hook");
      },
    ],
    [
      "job-ready",
      async (page) => {
        await button(page, "Upload");
        await page.getByRole("region", { name: "First rows as the server reads them" }).waitFor();
      },
    ],
    [
      "keys-new",
      async (page) => {
        await at("settings/keys")(page);
        await button(page, "Create a key");
        await page.getByRole("dialog").getByLabel("Name").fill("crm");
        await button(page, "Create");
        await page.getByText("Copy your key now").waitFor();
      },
    ],
    [
      "callbacks-signed",
      async (page) => {
        await at("settings/callbacks")(page);
        await button(page, "Create signing secret");
        await page.getByText("Copy the secret now").waitFor();
      },
    ],
    [
      "users-add",
      async (page) => {
        await at("operator/users")(page);
        await button(page, "Add a user");
        await page.getByRole("dialog").getByLabel("Starting credits").waitFor();
      },
    ],
    [
      "users-change",
      async (page) => {
        await at("operator/users")(page);
        await button(page, "Change bo@example.com");
        await page.getByRole("menuitem", { name: "Grant credits" }).click();
        await page.getByRole("dialog").getByLabel("Credits").waitFor();
      },
    ],
    [
      "cluster-release",
      async (page) => {
        await at("operator/cluster")(page);
        await page.getByRole("button", { name: /^Release/ }).first().click();
        await page.getByRole("dialog").waitFor();
      },
    ],
    [
      "providers-more",
      async (page) => {
        await at("operator/providers")(page);
        await page.getByLabel("Find a provider").fill("goo");
        await button(page, "More about Google");
      },
    ],
    [
      "probes-singles",
      async (page) => {
        await at("operator/probes")(page);
        await page.getByRole("tab", { name: "Single calls" }).click();
        await page.getByRole("region", { name: "Single calls" }).waitFor();
      },
    ],
    [
      "audit-none",
      async (page) => {
        await at("operator/audit")(page);
        await page.getByLabel("Who").fill("nobody");
        await page.getByText("No matching entries").waitFor();
      },
    ],
    ["nowhere", at("nowhere")],
    ["sign-in", signOut],
    [
      "sign-in-refused",
      async (page) => {
        await page.getByLabel("E-mail address").fill(bo.email);
        await page.locator("input[type=password]").fill("not the password");
        await button(page, "Sign in");
        await page.getByRole("alert").waitFor();
      },
    ],
    [
      "new-overview",
      async (page) => {
        await signIn(page, base, bo.email, bo.password);
        await heading(page, "Overview");
      },
    ],
    ...["lists", "docs", "settings/keys", "settings/usage"].map((place) => [`new-${place.replace("settings/", "")}`, at(place)]),
  ];
}
