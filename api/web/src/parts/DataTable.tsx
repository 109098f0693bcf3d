import { Button, Checkbox, Group, Select, Text, TextInput } from "@mantine/core";
import { getCoreRowModel, getFilteredRowModel, getPaginationRowModel, getSortedRowModel, useReactTable, type ColumnDef, type RowSelectionState, type SortingState } from "@tanstack/react-table";
import { useMemo, useState, type HTMLAttributes, type ReactNode } from "react";
import { number } from "../format";
import { Empty, Icon } from "./index";
import { Rows, type Column } from "./Rows";

interface Props<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf: (row: T, index: number) => string;
  /** What stands in place of a table without rows. */
  empty?: ReactNode;
  /** The server pages: rows are one of its pages, in its order, found by its search. */
  pages?: Pages;
  /** What is searched in a row, and the words of the field for it. */
  find?: { text: (row: T) => string; placeholder: string };
  /** Filters of the page, next to the search. */
  filters?: ReactNode;
  /** The column that rows are in order of at first; a "-" before it for the highest first. */
  order?: string;
  /** Rows can be chosen, and this is done with those that are. */
  bulk?: { nameOf: (row: T) => string; act: (chosen: T[], done: () => void) => ReactNode };
  narrow?: "stack" | "fit";
  pageSize?: number;
  rowProps?: (row: T) => HTMLAttributes<HTMLTableRowElement>;
  below?: (row: T) => ReactNode;
}

/** Pages are those of the server: where the one shown begins, which the address names, where the next one does, and how to get
 * there. One page back is the browser's Back. In another order the first page is shown. */
export interface Pages {
  cursor: string | undefined;
  next: string | null | undefined;
  go: (cursor: string | undefined) => void;
  words?: readonly [first: string, next: string];
  /** The server's word for the order of its pages, a "-" before it for the highest first. */
  sort?: string;
  sortBy?: (sort: string) => void;
}

const none: never[] = [];

/** DataTable is every table that is searched, sorted, paged or chosen from: all records that there are, or a page of the server's. */
export function DataTable<T>({ label, columns, rows, keyOf, empty, pages: served, find, filters, order, bulk, narrow, pageSize = 50, rowProps, below }: Props<T>) {
  const [text, setText] = useState("");
  const [ourSorting, setSorting] = useState<SortingState>(order ? [{ id: order.replace(/^-/, ""), desc: order.startsWith("-") }] : none);
  const sorting = served ? servedSorting(columns, served.sort) : ourSorting;
  const [ours, setPagination] = useState({ pageIndex: 0, pageSize });
  const pagination = served ? { pageIndex: 0, pageSize: Math.max(1, rows.length) } : ours;
  const [rowSelection, setRowSelection] = useState<RowSelectionState>({});
  const defs = useMemo(
    () => columns.map((c): ColumnDef<T> => ({ id: c.title, accessorFn: (row) => c.by?.(row) ?? undefined, enableSorting: served ? c.sort !== undefined : c.by !== undefined, sortUndefined: "last", sortDescFirst: c.kind === "number" })),
    [columns, served !== undefined],
  );
  const table = useReactTable({
    data: rows as T[],
    columns: defs,
    getRowId: keyOf,
    state: { sorting, pagination, rowSelection, globalFilter: text.trim().toLowerCase() },
    manualSorting: served !== undefined,
    onSortingChange: setSorting,
    onPaginationChange: setPagination,
    onRowSelectionChange: setRowSelection,
    globalFilterFn: (row, _, wanted: string) => find?.text(row.original).toLowerCase().includes(wanted) ?? true,
    getColumnCanGlobalFilter: () => true,
    enableRowSelection: bulk !== undefined,
    autoResetPageIndex: false, // news come every few seconds
    getCoreRowModel: getCoreRowModel(),
    getFilteredRowModel: getFilteredRowModel(),
    getSortedRowModel: getSortedRowModel(),
    getPaginationRowModel: getPaginationRowModel(),
  });
  function search(wanted: string) {
    setText(wanted);
    setPagination({ pageIndex: 0, pageSize });
  }
  const found = table.getFilteredRowModel().rows.length;
  const pages = Math.max(1, table.getPageCount());
  const page = Math.min(pagination.pageIndex, pages - 1); // rows may have gone meanwhile
  if (page !== pagination.pageIndex) setPagination({ pageIndex: page, pageSize });
  const chosen = table.getSelectedRowModel().rows.map((r) => r.original);
  const clear = () => setRowSelection({});
  const sorted = sorting[0];
  const sortable = columns.filter((c) => (served ? served.sortBy && c.sort : c.by));
  function sortBy(title: string) {
    if (!served) return table.getColumn(title)?.toggleSorting();
    const by = columns.find((c) => c.title === title)?.sort;
    if (by) served.sortBy?.(sorted?.id !== title ? by : (sorted.desc ? "" : "-") + fieldOf(by));
  }
  const asks = find || filters || chosen.length > 0;
  const all = bulk ? [choice(table, bulk.nameOf), ...columns] : columns;
  return (
    <>
      {(asks || (served && sortable.length > 0)) && (
        <Group className="asks" gap="sm" mb="sm" {...(!asks && { hiddenFrom: "sm" })}>
          {find && <TextInput aria-label={find.placeholder} placeholder={find.placeholder} value={text} w="22rem" leftSection={<Icon name="search" size={16} />} onChange={(e) => search(e.currentTarget.value)} />}
          {filters}
          {sortable.length > 0 && (
            <Select hiddenFrom="sm" aria-label="Sort by" placeholder="Sort by" data={sortable.map((c) => c.title)} value={sorted?.id ?? null} onChange={(id) => id && (served ? sortBy(id) : setSorting([{ id, desc: sortable.find((c) => c.title === id)?.kind === "number" }]))} />
          )}
          {bulk && chosen.length > 0 && (
            <Group gap="xs" role="group" aria-label="What to do with the selection">
              <Text size="sm">{number(chosen.length)} selected</Text>
              {bulk.act(chosen, clear)}
              <Button size="compact-sm" variant="subtle" onClick={clear}>
                Clear
              </Button>
            </Group>
          )}
        </Group>
      )}
      {found === 0 ? (
        text ? <Empty icon="search" title={`Nothing found for "${text}"`} /> : (empty ?? <Empty icon="search" title="Nothing here" />)
      ) : (
        <Rows
          label={label}
          columns={all}
          rows={table.getRowModel().rows.map((r) => r.original)}
          keyOf={keyOf}
          {...(narrow && { narrow })}
          {...(rowProps && { rowProps })}
          {...(below && { below })}
          sort={{ by: sorted?.id, descending: sorted?.desc ?? false, change: sortBy, can: (title) => sortable.some((c) => c.title === title) }}
        />
      )}
      {served && <ServedPages label={label} {...served} />}
      {!served && pages > 1 && (
        <Group justify="flex-end" mt="sm" gap="xs" role="group" aria-label={`Pages of ${label}`}>
          <Text size="sm" c="dimmed" role="status">
            {number(page * pageSize + 1)} to {number(Math.min(found, (page + 1) * pageSize))} of {number(found)}
          </Text>
          <Button size="compact-sm" variant="default" disabled={page === 0} onClick={() => table.previousPage()}>
            Back
          </Button>
          <Button size="compact-sm" variant="default" disabled={page === pages - 1} onClick={() => table.nextPage()}>
            Next
          </Button>
        </Group>
      )}
    </>
  );
}

const fieldOf = (sort: string) => sort.replace(/^-/, "");

/** servedSorting is the server's order as that of a column. */
function servedSorting<T>(columns: readonly Column<T>[], sort: string | undefined): SortingState {
  const column = columns.find((c) => c.sort && sort && fieldOf(c.sort) === fieldOf(sort));
  return column ? [{ id: column.title, desc: sort!.startsWith("-") }] : none;
}

/** ServedPages goes to the server's next page, and back to its first. */
function ServedPages({ label, cursor, next, go, words: [first, later] = ["Newest", "Older"] }: Pages & { label: string }) {
  if (!cursor && !next) return null;
  return (
    <Group justify="flex-end" mt="sm" gap="xs" role="group" aria-label={`Pages of ${label}`}>
      <Button size="compact-sm" variant="default" disabled={!cursor} onClick={() => go(undefined)}>
        {first}
      </Button>
      <Button size="compact-sm" variant="default" disabled={!next} onClick={() => next && go(next)}>
        {later}
      </Button>
    </Group>
  );
}

/** choice is the column of boxes by which rows are chosen. */
function choice<T>(table: ReturnType<typeof useReactTable<T>>, nameOf: (row: T) => string): Column<T> {
  return {
    title: "Select",
    kind: "choose",
    head: <Checkbox size="xs" aria-label="Select all on this page" checked={table.getIsAllPageRowsSelected()} indeterminate={table.getIsSomePageRowsSelected()} onChange={table.getToggleAllPageRowsSelectedHandler()} />,
    of: (row) => {
      const r = table.getRowModel().rows.find((r) => r.original === row)!;
      return <Checkbox size="xs" aria-label={`Select ${nameOf(row)}`} checked={r.getIsSelected()} onChange={r.getToggleSelectedHandler()} />;
    },
  };
}
