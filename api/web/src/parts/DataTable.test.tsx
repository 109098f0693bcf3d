import { MantineProvider } from "@mantine/core";
import { cleanup, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";
import { DataTable, type Pages } from "./DataTable";
import type { Column } from "./Rows";

interface Town {
  name: string;
  people: number | null;
}

const towns: Town[] = [
  { name: "York", people: 200 },
  { name: "Bonn", people: null },
  { name: "Graz", people: 300 },
];

const columns: Column<Town>[] = [
  { title: "Name", of: (t) => t.name, by: (t) => t.name },
  { title: "People", kind: "number", of: (t) => t.people, by: (t) => t.people },
];

type More = Partial<Parameters<typeof DataTable<Town>>[0]>;

const show = (more: More = {}) =>
  render(
    <MantineProvider env="test">
      <DataTable label="Towns" columns={columns} rows={towns} keyOf={(t) => t.name} {...more} />
    </MantineProvider>,
  );

const names = () => within(screen.getByRole("table")).getAllByRole("row").slice(1).map((r) => within(r).getAllByRole("cell").find((c) => c.dataset["title"] === "Name")?.textContent);
const button = (name: string) => screen.getByRole("button", { name });

afterEach(cleanup);

describe("DataTable", () => {
  it("sorts numbers from the highest first, and rows without one last", async () => {
    show();
    expect(names()).toEqual(["York", "Bonn", "Graz"]);
    await userEvent.click(button("People"));
    expect(names()).toEqual(["Graz", "York", "Bonn"]);
    expect(screen.getByRole("columnheader", { name: "People" }).getAttribute("aria-sort")).toBe("descending");
    await userEvent.click(button("People"));
    expect(names()).toEqual(["York", "Graz", "Bonn"]);
    await userEvent.click(button("Name"));
    expect(names()).toEqual(["Bonn", "Graz", "York"]);
  });

  it("finds in all rows, and goes back to the first page for it", async () => {
    show({ pageSize: 1, order: "Name", find: { text: (t) => t.name, placeholder: "Find a town" } });
    await userEvent.click(button("Next"));
    expect(names()).toEqual(["Graz"]);
    screen.getByText("2 to 2 of 3");
    await userEvent.type(screen.getByLabelText("Find a town"), "ON");
    expect(names()).toEqual(["Bonn"]);
    await userEvent.type(screen.getByLabelText("Find a town"), "x");
    screen.getByText('Nothing found for "ONx"');
  });

  it("acts on the rows that were chosen", async () => {
    const act = vi.fn((chosen: Town[]) => <b>{chosen.map((t) => t.name).join()}</b>);
    show({ bulk: { nameOf: (t) => t.name, act } });
    await userEvent.click(screen.getByLabelText("Select Graz"));
    screen.getByText("1 selected");
    await userEvent.click(screen.getByLabelText("Select all on this page"));
    screen.getByText("York,Bonn,Graz");
    await userEvent.click(button("Clear"));
    expect(screen.queryByText(/selected/)).toBeNull();
  });

  it("shows the server's pages in their order, and leads to the next and the first", async () => {
    const go = vi.fn<Pages["go"]>();
    show({ pages: { cursor: "b", next: "c", go } });
    expect(names()).toEqual(["York", "Bonn", "Graz"]);
    await userEvent.click(button("Older"));
    await userEvent.click(button("Newest"));
    expect(go.mock.calls).toEqual([["c"], [undefined]]);
    expect(screen.queryByRole("button", { name: "Name" })).toBeNull(); // it would sort one page
  });

  it("has the server sort its pages, by what it can", async () => {
    const sortBy = vi.fn<(sort: string) => void>();
    const columns: Column<Town>[] = [
      { title: "Name", sort: "name", of: (t) => t.name, by: (t) => t.name },
      { title: "People", sort: "-people", of: (t) => t.people },
      { title: "Twin", of: () => "", by: (t) => t.name },
    ];
    const pages = { cursor: undefined, next: "c", go: () => {}, sortBy };
    const { rerender } = show({ columns, pages: { ...pages, sort: "-name" } });
    expect(names()).toEqual(["York", "Bonn", "Graz"]); // the server's order
    expect(screen.getByRole("columnheader", { name: "Name" }).getAttribute("aria-sort")).toBe("descending");
    expect(screen.queryByRole("button", { name: "Twin" })).toBeNull();
    await userEvent.click(button("Name"));
    await userEvent.click(button("People"));
    rerender(
      <MantineProvider env="test">
        <DataTable label="Towns" columns={columns} rows={towns} keyOf={(t) => t.name} pages={{ ...pages, sort: "name" }} />
      </MantineProvider>,
    );
    await userEvent.click(button("Name"));
    expect(sortBy.mock.calls).toEqual([["name"], ["-people"], ["-name"]]);
    expect(names()).toEqual(["York", "Bonn", "Graz"]);
  });

  it("says in place of no rows what it is told to", () => {
    show({ rows: [], empty: <p>No towns</p> });
    screen.getByText("No towns");
  });
});
