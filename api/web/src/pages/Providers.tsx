import { Button, Group, Table, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { providers } from "../api/queries";
import type { Schemas } from "../api/client";
import { number } from "../format";
import { Badge, Empty, Icon, Loaded, Page, Panel } from "../parts";

type Provider = Schemas["Provider"];

const limitWords: [string, string][] = [
  ["connections", "connections at one time"],
  ["connections_per_minute", "connections a minute"],
  ["recipients_per_minute", "recipients a minute"],
  ["recipients_per_transaction", "recipients a transaction"],
  ["recipients_per_connection", "recipients a connection"],
  ["transactions_per_connection", "transactions a connection"],
  ["refusals_per_connection", "refusals a connection"],
  ["refusals_per_hour", "refusals an hour"],
];

/** Providers is the table of receivers: what each tolerates, and who says so. */
export function Providers() {
  const query = useQuery(providers);
  const [find, setFind] = useState("");
  const [open, setOpen] = useState<string | null>(null);
  return (
    <Page title="Providers" note="What each receiver tolerates from one of our addresses. Operators override it in a file; SIGHUP loads it.">
      <Panel>
        <TextInput aria-label="Find a provider" placeholder="Find by name or MX" value={find} onChange={(e) => setFind(e.currentTarget.value)} mb="sm" maw="22rem" leftSection={<Icon name="search" size={16} />} />
        <Loaded query={query} what="the table">
          {({ providers: list, in_force }) => {
            const q = find.trim().toLowerCase();
            const shown = list.filter((p) => !q || [p.id, p.name, ...p.mx].some((s) => s.toLowerCase().includes(q)));
            return (
              <>
                {!in_force && (
                  <Text size="sm" c="dimmed" mb="sm">
                    This is the shipped table: overrides in force are not known here.
                  </Text>
                )}
                {shown.length === 0 ? (
                  <Empty icon="providers" title="No such provider" />
                ) : (
                  <div className="scroll" tabIndex={0} role="region" aria-label="Providers">
                    <Table verticalSpacing="xs">
                      <Table.Thead>
                        <Table.Tr>
                          <Table.Th>Provider</Table.Th>
                          <Table.Th>Probing</Table.Th>
                          <Table.Th className="num">Connections</Table.Th>
                          <Table.Th className="num">Refusals/h</Table.Th>
                          <Table.Th>Overridden</Table.Th>
                          <Table.Th><span className="unseen">More</span>
                          </Table.Th>
                        </Table.Tr>
                      </Table.Thead>
                      <Table.Tbody>
                        {shown.map((p) => (
                          <ProviderRows key={p.id || "unknown"} provider={p} open={open === p.id} toggle={() => setOpen(open === p.id ? null : p.id)} />
                        ))}
                      </Table.Tbody>
                    </Table>
                  </div>
                )}
              </>
            );
          }}
        </Loaded>
      </Panel>
    </Page>
  );
}

const orNone = (n: number | undefined) => (n ? number(n) : "no limit");

function ProviderRows({ provider: p, open, toggle }: { provider: Provider; open: boolean; toggle: () => void }) {
  const name = p.name || p.id || "Hosts nobody knows";
  const facts: [string, ReactNode][] = [
    ["MX names", p.mx.join(", ") || "any other"],
    ["STARTTLS", p.tls],
    ["Spread over all identities", p.wide ? "yes" : "no"],
    ...limitWords.map(([key, words]): [string, ReactNode] => [words, orNone(p.limits[key])]),
    ["Reply rules of its own", number(p.rules)],
    ["Terms", p.terms],
    ["Source", p.source],
    ["As of", p.date],
  ];
  return (
    <>
      <Table.Tr>
        <Table.Td fw={600}>{name}</Table.Td>
        <Table.Td>
          {!p.probe ? <Badge tone="bad">off</Badge> : p.accept_all ? <Badge tone="fair">accepts all</Badge> : <Badge tone="good">on</Badge>}
        </Table.Td>
        <Table.Td className="num">{orNone(p.limits.connections)}</Table.Td>
        <Table.Td className="num">{orNone(p.limits.refusals_per_hour)}</Table.Td>
        <Table.Td>{p.overridden.length > 0 ? <Badge tone="busy">{p.overridden.join(", ")}</Badge> : "—"}</Table.Td>
        <Table.Td className="num">
          <Button size="compact-sm" variant="default" onClick={toggle} aria-expanded={open} aria-label={`${open ? "Less" : "More"} about ${name}`}>
            {open ? "Less" : "More"}
          </Button>
        </Table.Td>
      </Table.Tr>
      {open && (
        <Table.Tr>
          <Table.Td colSpan={6}>
            <Group align="flex-start" gap="xl">
              <dl style={{ margin: 0, display: "grid", gridTemplateColumns: "max-content 1fr", gap: ".25rem 1rem", fontSize: ".875rem" }}>
                {facts
                  .filter(([, v]) => v)
                  .map(([k, v]) => (
                    <div key={k} style={{ display: "contents" }}>
                      <dt>{k}</dt>
                      <dd style={{ margin: 0, overflowWrap: "anywhere" }}>{v}</dd>
                    </div>
                  ))}
              </dl>
            </Group>
          </Table.Td>
        </Table.Tr>
      )}
    </>
  );
}
