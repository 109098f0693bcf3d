import { Table } from "@mantine/core";
import type { HTMLAttributes, Key, ReactNode } from "react";

/** Column is what stands below each other in a table. */
export interface Column<T> {
  title: string;
  of: (row: T) => ReactNode;
  /** What the rows of a DataTable can be sorted by. */
  by?: (row: T) => string | number | null | undefined;
  /** What the server can sort its pages by, in its words: as it is at first, with a "-" before it for the highest first. */
  sort?: string;
  /** What stands at the head instead of the title. */
  head?: ReactNode;
  /** Numbers stand to the right, a word never breaks, names have room, text takes a line of its own on a phone, and what is
   * wide what is left of one; what is done with a row, and the box that chooses it, have a title that is only heard. */
  kind?: "number" | "word" | "name" | "text" | "wide" | "act" | "choose";
  /** A phone leaves it out: it is told elsewhere as well. */
  spare?: boolean;
}

interface Props<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf: (row: T, index: number) => Key;
  /** On a phone a row is stacked, with the first column as its head; short numbers fit beside each other. */
  narrow?: "stack" | "fit";
  rowProps?: (row: T) => HTMLAttributes<HTMLTableRowElement>;
  /** What belongs to a row and stands below it, as wide as the table. */
  below?: (row: T) => ReactNode;
  sort?: Sort;
}

/** Sort is what rows are sorted by, and how that is changed. */
interface Sort {
  by: string | undefined;
  descending: boolean;
  change: (title: string) => void;
  can: (title: string) => boolean;
}

/** Rows is every table of records: it scrolls by keyboard where it is too wide, and is stacked on a phone. Its roles are said
 * as well: what is stacked is a table all the same for those who hear it. */
export function Rows<T>({ label, columns, rows, keyOf, narrow = "stack", rowProps, below, sort }: Props<T>) {
  return (
    <div className={`rows ${narrow}`} tabIndex={0} role="region" aria-label={label}>
      <Table role="table" verticalSpacing="xs">
        <Table.Thead role="rowgroup">
          <Table.Tr role="row">
            {columns.map((c) => (
              <Table.Th key={c.title} role="columnheader" scope="col" className={classes(c)} aria-sort={sort && sort.by === c.title ? (sort.descending ? "descending" : "ascending") : undefined}>
                <Head column={c} sort={sort} />
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody role="rowgroup">
          {rows.map((row, i) => (
            <Both key={keyOf(row, i)} below={below?.(row)} span={columns.length}>
              <Table.Tr role="row" {...rowProps?.(row)}>
                {columns.map((c) => (
                  <Table.Td key={c.title} role="cell" className={classes(c)} data-title={c.kind === "act" || c.kind === "choose" ? undefined : c.title}>
                    {c.of(row)}
                  </Table.Td>
                ))}
              </Table.Tr>
            </Both>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

/** Head is a column's title: a button where rows can be sorted by it. */
function Head<T>({ column: c, sort }: { column: Column<T>; sort: Sort | undefined }) {
  if (c.head) return <>{c.head}</>;
  if (c.kind === "act") return <span className="unseen">{c.title}</span>;
  if (!sort?.can(c.title)) return <>{c.title}</>;
  return (
    <button type="button" className="sorts" onClick={() => sort.change(c.title)}>
      {c.title}
      <span aria-hidden>{sort.by === c.title ? (sort.descending ? " ↓" : " ↑") : " ↕"}</span>
    </button>
  );
}

const classes = <T,>(c: Column<T>) => [c.kind, c.spare && "spare"].filter(Boolean).join(" ") || undefined;

function Both({ children, below, span }: { children: ReactNode; below: ReactNode; span: number }) {
  return (
    <>
      {children}
      {below && (
        <Table.Tr role="row" className="below">
          <Table.Td role="cell" colSpan={span}>
            {below}
          </Table.Td>
        </Table.Tr>
      )}
    </>
  );
}

/** Facts are names with what is known under them; what is not known is left out. */
export function Facts({ list }: { list: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {list
        .filter(([, known]) => known)
        .map(([name, known]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{known}</dd>
          </div>
        ))}
    </dl>
  );
}
