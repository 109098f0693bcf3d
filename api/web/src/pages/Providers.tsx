import { Button, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { providers } from "../api/queries";
import type { Schemas } from "../api/client";
import { number } from "../format";
import { Badge, Empty, Facts, Icon, Loaded, Page, Panel, Rows, type Column } from "../parts";

type Provider = Schemas["Provider"];

const limitWords: [string, string][] = [
  ["connections", "Connections at one time"],
  ["connections_per_minute", "Connections a minute"],
  ["recipients_per_minute", "Recipients a minute"],
  ["recipients_per_transaction", "Recipients a transaction"],
  ["recipients_per_connection", "Recipients a connection"],
  ["transactions_per_connection", "Transactions a connection"],
  ["refusals_per_connection", "Refusals a connection"],
  ["refusals_per_hour", "Refusals an hour"],
];

/** Providers is the table of receivers: what each tolerates, and who says so. */
export function Providers() {
  const query = useQuery(providers);
  const { find = "" } = useSearch({ from: "/operator/providers" });
  const navigate = useNavigate({ from: "/operator/providers" });
  const [open, setOpen] = useState<string | null>(null);
  const columns: Column<Provider>[] = [
    { title: "Provider", kind: "name", of: (p) => <b>{nameOf(p)}</b> },
    { title: "Probing", of: (p) => <Probing provider={p} /> },
    { title: "Connections", kind: "number", spare: true, of: (p) => orNone(p.limits.connections) },
    { title: "Refusals/h", kind: "number", spare: true, of: (p) => orNone(p.limits.refusals_per_hour) },
    { title: "Overridden", spare: true, of: (p) => (p.overridden.length > 0 ? <Badge tone="busy">{p.overridden.join(", ")}</Badge> : "—") },
    {
      title: "More",
      kind: "act",
      of: (p) => (
        <Button size="compact-sm" variant="default" onClick={() => setOpen(open === p.id ? null : p.id)} aria-expanded={open === p.id} aria-label={`${open === p.id ? "Less" : "More"} about ${nameOf(p)}`}>
          {open === p.id ? "Less" : "More"}
        </Button>
      ),
    },
  ];
  return (
    <Page title="Providers" note="Limits per source IP for each provider. Override with --providers; reload with SIGHUP.">
      <Panel>
        <TextInput aria-label="Find a provider" placeholder="Find by name or MX" value={find} onChange={(e) => void navigate({ search: { find: e.currentTarget.value || undefined }, replace: true, resetScroll: false })} mb="sm" maw="22rem" leftSection={<Icon name="search" size={16} />} />
        <Loaded query={query} what="the table">
          {({ providers: list, in_force }) => {
            const q = find.trim().toLowerCase();
            const shown = list.filter((p) => !q || [p.id, p.name, ...p.mx].some((s) => s.toLowerCase().includes(q)));
            return (
              <>
                {!in_force && (
                  <Text size="sm" c="dimmed" mb="sm">
                    Shipped defaults shown; active overrides are not available here.
                  </Text>
                )}
                {shown.length === 0 ? (
                  <Empty icon="providers" title="No such provider">
                    A receiver that is not in the table is asked within the limits of the first one, which is for all others.
                  </Empty>
                ) : (
                  <Rows label="Providers" columns={columns} rows={shown} keyOf={(p) => p.id || "unknown"} narrow="fit" below={(p) => open === p.id && <About provider={p} />} />
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

/** nameOf is what a provider is called; the first one stands for all that have no name. */
const nameOf = (p: Provider) => (p.name === "other" ? "All other hosts" : p.name || p.id);

/** askedFrom says how the egress identities share a provider. */
const askedFrom: Record<Provider["kind"], string> = {
  narrow: "one identity",
  wide: "all identities",
  tenants: "all identities, each domain from one",
};

function About({ provider: p }: { provider: Provider }) {
  return (
    <Facts
      list={[
        ["MX names", p.mx.join(", ") || "any other"],
        ["STARTTLS", p.tls],
        ["Asked from", askedFrom[p.kind]],
        ...limitWords.map(([key, words]): [string, ReactNode] => [words, orNone(p.limits[key])]),
        ["Overridden", p.overridden.join(", ")],
        ["Reply rules of its own", number(p.rules)],
        ["Terms", p.terms],
        ["Terms forbid to verify", p.terms_forbid ? "yes" : ""],
        ["Terms read at", p.terms_source],
        ["Source", p.source],
        ["As of", p.date],
      ]}
    />
  );
}

function Probing({ provider: p }: { provider: Provider }) {
  if (!p.probe) return <Badge tone="bad">off</Badge>;
  return p.accept_all ? <Badge tone="fair">accepts all</Badge> : <Badge tone="good">on</Badge>;
}
