import { Table } from "@mantine/core";
import type { HTMLAttributes, Key, ReactNode } from "react";

/** Column is what stands below each other in a table. */
export interface Column<T> {
  title: string;
  of: (row: T) => ReactNode;
  /** Numbers stand to the right, a word never breaks, names have room, text takes a line of its own on a phone, and what is
   * wide what is left of one; what is done with a row has a title that is only heard. */
  kind?: "number" | "word" | "name" | "text" | "wide" | "act";
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
}

/** Rows is every table of records: it scrolls by keyboard where it is too wide, and is stacked on a phone. Its roles are said
 * as well: what is stacked is a table all the same for those who hear it. */
export function Rows<T>({ label, columns, rows, keyOf, narrow = "stack", rowProps, below }: Props<T>) {
  return (
    <div className={`rows ${narrow}`} tabIndex={0} role="region" aria-label={label}>
      <Table role="table" verticalSpacing="xs">
        <Table.Thead role="rowgroup">
          <Table.Tr role="row">
            {columns.map((c) => (
              <Table.Th key={c.title} role="columnheader" scope="col" className={classes(c)}>
                {c.kind === "act" ? <span className="unseen">{c.title}</span> : c.title}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody role="rowgroup">
          {rows.map((row, i) => (
            <Both key={keyOf(row, i)} below={below?.(row)} span={columns.length}>
              <Table.Tr role="row" {...rowProps?.(row)}>
                {columns.map((c) => (
                  <Table.Td key={c.title} role="cell" className={classes(c)} data-title={c.kind === "act" ? undefined : c.title}>
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
