import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { Outlet, RouterProvider, createMemoryHistory, createRootRoute, createRoute, createRouter } from "@tanstack/react-router";
import { cleanup, configure, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Job } from "../api/client";
import { PretendServer } from "./pretendServer";

const job: Partial<Job> = {
  job_id: "j1", status: "ready", name: null, filename: "list.csv", email_column: "E-Mail", delimiter: ";", encoding: "utf-8", has_header: true,
  created_at: "2026-03-01T12:00:00Z", started_at: null, finished_at: null, expires_at: null, total_rows: 1200, unique_addresses: 1150,
  duplicate_rows: 40, blank_rows: 10, processed: 0, percent: 0, rows_per_second: 0, eta_seconds: 5400, pending_retry: 0, waiting_budget: 0,
  slow_routes: [], counts: { VALID: 0, RISKY: 0, INVALID: 0, UNKNOWN: 0 }, reasons: {}, credits_reserved: 0, credits_used: 0, credits_refunded: 0,
  callback_url: null, callback_status: null, callback_attempts: 0, max_hours: 24, results_url: null, error: null, credits_needed: 1150,
};

let server: PretendServer;

configure({ asyncUtilTimeout: 20_000 }); // for a machine that has other things to do

/** open opens the page of jobs, with nothing in memory. */
async function open() {
  vi.resetModules();
  const { Lists } = await import("../pages/Lists");
  const { JobPage } = await import("../pages/Job");
  const { UploadPanel } = await import("./UploadPanel");
  const { client } = await import("../api/queries");
  const root = createRootRoute({ component: () => <><Outlet /><UploadPanel /></> });
  const routeTree = root.addChildren([
    createRoute({ getParentRoute: () => root, path: "/lists", component: Lists }),
    createRoute({ getParentRoute: () => root, path: "/lists/$jobId", component: JobPage }),
  ]);
  const router = createRouter({ routeTree, history: createMemoryHistory({ initialEntries: ["/lists"] }) });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

/** reload ends what the page does; the browser's storage stays. */
async function reload() {
  const { dropUploads } = await import("./uploads");
  const stored = sessionStorage.getItem("probity.uploads")!;
  cleanup();
  dropUploads();
  sessionStorage.setItem("probity.uploads", stored);
  await open();
}

const short = (text: string, name = "list.csv") => new File([text], name, { lastModified: 5 });
const size = 10 << 20;
const long = () => short("email\n" + "ann@long.example,\n".repeat(500_000).padEnd(size - 6), "long.csv");

const choose = async (file: File) => userEvent.upload(await screen.findByLabelText(/Drop lists here/), file, { applyAccept: false });
const press = async (name: string) => userEvent.click(await screen.findByRole("button", { name }));
const panel = () => screen.findByRole("region", { name: "Uploads" });
const says = async (text: string | RegExp) => within(await panel()).findByText(text);

/** comesBack is the server after a while, once it was away. */
async function comesBack() {
  server.away = false;
  await vi.advanceTimersByTimeAsync(10_000);
}

/** parts are those of the newest request for a job. */
const parts = () => Object.fromEntries((server.of("POST", "/v1/verify/bulk").at(-1)!.body as FormData).entries());

beforeEach(() => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  sessionStorage.clear();
  server = new PretendServer();
  server.job = job;
  server.install();
});

afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("an upload", { timeout: 60_000 }, () => {
  it("shows the first rows before it begins, and how they are read", async () => {
    await open();
    await choose(short("Name;E-Mail\nAnn;ann@shop.example\nBo;bo@shop.example\n"));
    const rows = await screen.findByRole("region", { name: "First rows of the list" });
    expect(within(rows).getAllByRole("columnheader").map((h) => h.textContent)).toEqual(["Name", "E-Mail addresses"]);
    within(rows).getByText("bo@shop.example");
    screen.getByText(/Delimiter: semicolon\./);
    expect(server.of("POST", /./)).toEqual([]);
  });

  it("does not show a JSON array as rows, and says what can be uploaded", async () => {
    await open();
    await choose(short('[{"email":"ann@shop.example"},\n{"email":"bo@shop.example"}]', "people.json"));
    await screen.findByText(/^This is a JSON array\. Upload JSON lines instead/);
    expect(screen.queryByRole("region", { name: "First rows of the list" })).toBeNull();
    expect(screen.queryByRole("button", { name: "Upload" })).toBeNull();
  });

  it("of a short list is one request, and its price and time are shown before anything is charged", async () => {
    await open();
    await choose(short("Name;E-Mail\nAnn;ann@shop.example\n"));
    await press("Upload");
    await screen.findByRole("heading", { name: "Ready to start" });
    expect(screen.getAllByText("1,150").length).toBe(2); // credits and addresses
    screen.getByText("1 h 30 min");
    await screen.findByText("You have 100 credits; this needs 1,150. Ask your administrator for more, then start the job.");
    expect(server.of("POST", /./).map((a) => a.path)).toEqual(["/v1/verify/bulk"]);
    expect(parts()).toMatchObject({ start: "false", email_column: "2", delimiter: ";", has_header: "true", file: { name: "list.csv" } });
  });

  it("that is refused says why, and is sent as it is if its user wants that", async () => {
    await open();
    const detail = 'file: none of the first 2 cells of the column "Name" (1) look like addresses: name another column with email_column, or verify this one with column_check=false';
    server.next = { status: 422, body: { detail } };
    await choose(short("Name\nAnn\nBo\n"));
    await userEvent.click(await screen.findByRole("combobox", { name: "E-mail column" }));
    await userEvent.click(await screen.findByRole("option", { name: "Name (1)" }));
    await press("Upload");
    await says('The list was not accepted, and nothing was charged: none of the first 2 cells of the column "Name" (1) look like addresses.');
    expect(within(await panel()).queryByRole("button", { name: "Try again" })).toBeNull();
    await press("Verify this column anyway");
    await says("Uploaded. Nothing is charged until you start the job.");
    expect(parts().column_check).toBe("false");
  });

  it("of a long list goes on where it was cut, with the options that it had", async () => {
    await open();
    server.cutAt = 4 << 20;
    await choose(long());
    await press("More options");
    await userEvent.type(await screen.findByLabelText("Name of the job"), "Spring");
    await press("Upload");
    await says("Paused. The upload continues automatically when the server answers.");
    await vi.advanceTimersByTimeAsync(60_000);
    await says(/^Paused/);
    await comesBack();
    await screen.findByRole("heading", { name: "Ready to start" });
    expect(server.of("POST", "/v1/uploads").length).toBe(1);
    expect(server.of("PATCH", /./).map((a) => [a.headers["Upload-Offset"], a.bytes])).toEqual([["0", 4 << 20], [String(4 << 20), size - (4 << 20)]]);
    expect(parts()).toMatchObject({ start: "false", name: "Spring", email_column: "1", upload_id: expect.stringMatching(/\/v1\/uploads\/u1$/) });
    expect(parts().file).toBeUndefined();
  });

  it("is not begun anew where the server refuses for the moment", async () => {
    await open();
    server.cutAt = 4 << 20;
    await choose(long());
    await press("Upload");
    await says(/^Paused/);
    server.next = { status: 502 }; // of a proxy, to HEAD
    await comesBack();
    await screen.findByRole("heading", { name: "Ready to start" });
    expect(server.of("HEAD", /./).length).toBe(2);
    expect(server.of("POST", "/v1/uploads").length).toBe(1);
  });

  it("is begun anew where the server does not have it any more", async () => {
    await open();
    server.cutAt = 4 << 20;
    await choose(long());
    await press("Upload");
    await says(/^Paused/);
    server.uploads.clear();
    server.uploads.set("/v1/uploads/another", { length: 1, has: 0 });
    await comesBack();
    await screen.findByRole("heading", { name: "Ready to start" });
    expect(server.of("PATCH", /./).at(-1)).toMatchObject({ path: "/v1/uploads/u2", bytes: size });
  });

  it("becomes one job, though the answer to it was lost", async () => {
    await open();
    server.losesJobs = 1;
    await choose(long());
    await press("Upload");
    await says(/^Paused/);
    await comesBack();
    await screen.findByRole("heading", { name: "Ready to start" });
    const [first, second, ...more] = server.of("POST", "/v1/verify/bulk").map((a) => a.headers["Idempotency-Key"]);
    expect(first).toBeTruthy();
    expect([second, more]).toEqual([first, []]);
    expect(server.of("PATCH", /./).length).toBe(1);
  });

  it("goes on after a reload, when the same file is chosen again", async () => {
    await open();
    server.cutAt = 4 << 20;
    await choose(long());
    await press("Upload");
    await says(/^Paused/);
    await reload();
    server.away = false;
    await says("Upload interrupted at 40 %. Nothing was charged. Select the file again to continue with the same options.");
    await userEvent.upload(screen.getByLabelText("The file long.csv again"), long());
    await says("Uploaded. Nothing is charged until you start the job.");
    expect(server.of("PATCH", /./).map((a) => [a.path, a.bytes])).toEqual([["/v1/uploads/u1", 4 << 20], ["/v1/uploads/u1", size - (4 << 20)]]);
  });

  it("leaves nothing on the server when its user stops it", async () => {
    await open();
    server.cutAt = 4 << 20;
    await choose(long());
    await press("Upload");
    await says(/^Paused/);
    server.away = false;
    await press("Stop");
    await says("Upload cancelled. Nothing was charged.");
    await vi.waitFor(() => expect(server.uploads.size).toBe(0));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(server.of("POST", "/v1/verify/bulk")).toEqual([]);
  });

  it("is not sent when its user stops it at once", async () => {
    await open();
    const { abort, start } = await import("./uploads");
    for (const file of [short("email\n"), long()]) abort(start(file, { name: "", column: "", hasHeader: true, callbackUrl: "", callbackContent: "full", maxHours: 0, maxAgeDays: 7 }, () => {}));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(server.of("POST", /./)).toEqual([]);
  });

  it("says that its file cannot be read any more", async () => {
    await open();
    const gone = short("email\nann@shop.example\n");
    await choose(gone);
    await screen.findByRole("region", { name: "First rows of the list" });
    vi.spyOn(gone, "slice").mockReturnValue({ arrayBuffer: () => Promise.reject(new DOMException("changed", "NotReadableError")) } as never);
    await press("Upload");
    await says(/^The file cannot be read any more/);
    expect(server.of("POST", /./)).toEqual([]);
  });

  it("ends with a button where the server answers and yet nothing arrives", async () => {
    await open();
    await choose(short("email\nann@shop.example\n"));
    server.losesJobs = 20;
    await press("Upload");
    await says(/^Paused/);
    await vi.advanceTimersByTimeAsync(200_000);
    await says("Upload failed: connection lost. Try again; you will not be charged twice.");
    expect(server.of("POST", "/v1/verify/bulk").length).toBe(20);
    await press("Try again");
    await says(/^Uploaded/);
  });
});
