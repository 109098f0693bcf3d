import { Select, Tabs, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { keys, session } from "../api/queries";
import { Code, Page, Panel, To } from "../parts";
import { examples, variableOf } from "./examples";

/** Docs shows how to call the API, with the name of one's key in place. */
export function Docs() {
  const visit = useQuery(session).data;
  const list = useQuery(keys).data ?? [];
  const [chosen, setChosen] = useState<string | null>(null);
  const key = list.find((k) => k.id === chosen) ?? list.find((k) => !k.test) ?? list[0];
  const base = visit?.service.public_url || location.origin;
  const variable = key ? variableOf(key.name) : "PROBITY_KEY";
  return (
    <Page
      title="Docs"
      note={
        <>
          Copy, paste, run. {visit?.service.docs && (
            <>
              Every endpoint, option and error is in the <a href="/docs">reference</a>. OpenAPI: <a href="/openapi.json">openapi.json</a>.
            </>
          )}
        </>
      }
    >
      <Panel title="Your key">
        {list.length === 0 ? (
          <Text>
            You have no key yet: <To to="/settings/keys">create one</To> first.
          </Text>
        ) : (
          <>
            <Select label="Examples for the key" data={list.map((k) => ({ value: k.id, label: `${k.name} (…${k.last4})` }))} value={key?.id ?? null} onChange={setChosen} allowDeselect={false} maw="22rem" mb="sm" />
            <Code label="Setting the key" text={`export ${variable}='${key?.test ? "prb_test_" : "prb_live_"}…${key?.last4}'   # paste your full key`} />
          </>
        )}
      </Panel>
      {examples(base, variable).map((e) => (
        <Panel key={e.title} title={e.title}>
          <Text size="sm" mb="sm">
            {e.note.split("`").map((words, i) => (i % 2 === 0 ? words : <span key={i} className="mono word">{words}</span>))}
          </Text>
          <Tabs defaultValue="curl" keepMounted={false}>
            <Tabs.List>
              {e.code.map((c) => (
                <Tabs.Tab key={c.language} value={c.language}>
                  {c.label}
                </Tabs.Tab>
              ))}
            </Tabs.List>
            {e.code.map((c) => (
              <Tabs.Panel key={c.language} value={c.language} pt="sm">
                <Code text={c.text} label={`${e.title}: ${c.label}`} />
              </Tabs.Panel>
            ))}
          </Tabs>
        </Panel>
      ))}
      <Panel title="What to expect">
        <ul style={{ margin: 0, paddingLeft: "1.2rem", display: "grid", gap: ".4rem", fontSize: "var(--mantine-font-size-sm)" }}>
          <li>
            Every error is <span className="mono">{'{"detail": "…"}'}</span>: it says what is wrong and what to do. If it is our fault, send us the <span className="mono word">X-Request-Id</span>.
          </li>
          <li>
            <span className="mono">429</span> responses include <span className="mono word">Retry-After</span>: wait that long. Your limits are {visit?.effective_limits.single_per_minute} single checks a minute and {visit?.effective_limits.bulk_per_hour} lists an hour.
          </li>
          <li>
            With <span className="mono">Idempotency-Key</span>, a POST can be repeated for a day without being done, or charged, twice.
          </li>
          <li>
            A test key answers <span className="mono">{"<reason>@example.com"}</span> with that reason, and costs nothing.
          </li>
        </ul>
      </Panel>
    </Page>
  );
}
