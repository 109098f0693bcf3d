import { Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, take, type Schemas } from "../api/client";
import { lanes } from "../api/queries";
import { number } from "../format";
import { Ask, Badge, Empty, Loaded, Moment, More, Name, Note, Panel, Rows, type Column } from "../parts";

type Lane = Schemas["Lane"];

const tones = { quarantined: "bad", paused: "fair", slowed: "fair", spent: "fair", waiting: "fair", busy: "busy", idle: "none" } as const;
const meanings: Record<Lane["state"], string> = {
  quarantined: "receiver refused this source IP; probing stopped",
  paused: "nothing is sent for a while",
  slowed: "half of every budget",
  spent: "the budget is used up for now",
  waiting: "recent connections failed; backing off",
  busy: "at work",
  idle: "nothing to do",
};

/** receiver names a lane's route for people: its first host stands for a long set. */
export function receiver(l: Pick<Lane, "route" | "provider">): string {
  if (l.route === "") return "every receiver";
  const [first, ...more] = l.route.split(",");
  return more.length > 0 ? `${first} and ${more.length} more` : first!;
}

/** Lanes are the budgets towards receivers: first what receivers refuse, then what is used. */
export function Lanes() {
  const query = useQuery(lanes);
  const resting = query.data?.lanes.filter((l) => l.state === "quarantined");
  return (
    <>
      <Panel title="Quarantines">
        <Loaded query={{ ...query, data: resting }} what="the lanes">
          {(list) =>
            list.length === 0 ? (
              <Text size="sm" c="dimmed">
                No quarantines.
              </Text>
            ) : (
              <Quarantines list={list} />
            )
          }
        </Loaded>
      </Panel>
      <Budgets query={query} />
    </>
  );
}

const keyOf = (l: Lane) => `${l.node} ${l.egress} ${l.route}`;

/** Receiver names whom a lane leads to, with its provider where that tells more. */
function Receiver({ lane: l, strong = false }: { lane: Lane; strong?: boolean }) {
  const wide = l.route !== "" && !l.route.includes(".");
  const name = wide && l.provider ? l.provider : receiver(l);
  return (
    <span title={l.route}>
      {strong ? <b><Name text={name} /></b> : <Name text={name} />}
      {!wide && l.provider && l.provider !== "other" && <Note>{l.provider}</Note>}
    </span>
  );
}

function Ours({ lane: l }: { lane: Lane }) {
  return (
    <>
      {l.egress}
      <Note>node {l.node}</Note>
    </>
  );
}

function Said({ lane: l }: { lane: Lane }) {
  return (
    <>
      <span className="mono">{l.reply ?? "(reply not recorded)"}</span>
      {l.rule && (
        <Note>
          <Name text={l.host ?? ""} />, read by rule <span className="mono">{l.rule}</span>, <Moment at={l.since} />
        </Note>
      )}
    </>
  );
}

function Release({ lane: l }: { lane: Lane }) {
  const client = useQueryClient();
  return (
    <Ask
      label="Release"
      title={`End the quarantine at ${receiver(l)}?`}
      button={{ size: "compact-sm", "aria-label": `Release ${l.egress} at ${receiver(l)}` }}
      act={() => take(api.POST("/v1/dash/admin/lanes/release", { body: { node: l.node, egress: l.egress, route: l.route } }))}
      done={() => void client.invalidateQueries({ queryKey: lanes.queryKey })}
    >
      {l.egress} will probe there again at once, within its budgets. If the receiver still blocks it, the quarantine may return and last longer.
    </Ask>
  );
}

function Quarantines({ list }: { list: Lane[] }) {
  return (
    <>
      <Text size="sm" c="dimmed" mb="xs">
        Probing is paused for these receivers because they refused us. Resolve it with them, then release.
      </Text>
      <Rows
        label="Quarantines"
        rows={list}
        keyOf={keyOf}
        columns={[
          { title: "Receiver", kind: "name", of: (l) => <Receiver lane={l} strong /> },
          { title: "Source IP", of: (l) => <Ours lane={l} /> },
          { title: "Reply", kind: "text", of: (l) => <Said lane={l} /> },
          { title: "Ends", of: (l) => <Moment at={l.until} /> },
          { title: "Release", kind: "act", of: (l) => <Release lane={l} /> },
        ]}
      />
    </>
  );
}

const shownAtFirst = 15;
type Which = "held" | "busy" | "all";
const held = (l: Lane) => l.state !== "busy" && l.state !== "idle";

function Budgets({ query }: { query: ReturnType<typeof useQuery<{ lanes: Lane[]; mute: string[] }>> }) {
  const [which, setWhich] = useState<Which>("all");
  const [all, setAll] = useState(false);
  return (
    <Panel
      title="Budgets"
      actions={
        <SegmentedControl
          size="xs"
          aria-label="Which lanes"
          value={which}
          onChange={(v) => setWhich(v as Which)}
          data={[
            { value: "all", label: "All" },
            { value: "held", label: "Held back" },
            { value: "busy", label: "At work" },
          ]}
        />
      }
    >
      <Loaded query={query} what="the lanes">
        {({ lanes: list, mute }) => {
          const chosen = list.filter((l) => which === "all" || (which === "held" ? held(l) : l.state === "busy"));
          const shown = all ? chosen : chosen.slice(0, shownAtFirst);
          return (
            <Stack gap="sm">
              {mute.length > 0 && (
                <Text size="sm" className="ink-bad" role="status">
                  {mute.join(", ")} cannot be asked: {mute.length === 1 ? "its lanes are" : "their lanes are"} not listed.
                </Text>
              )}
              {chosen.length === 0 ? <Empty icon="providers" title={which === "all" ? "No lanes in use" : "No matching lanes"} /> : <Rows label="Budgets" columns={columns} rows={shown} keyOf={keyOf} />}
              {chosen.length > shown.length && (
                <Group>
                  <More onClick={() => setAll(true)}>Show all {number(chosen.length)}</More>
                </Group>
              )}
            </Stack>
          );
        }}
      </Loaded>
    </Panel>
  );
}

const columns: Column<Lane>[] = [
  { title: "Receiver", kind: "name", of: (l) => <Receiver lane={l} /> },
  { title: "From", of: (l) => <span title={`node ${l.node}`}>{l.egress}</span> },
  { title: "State", of: (l) => <span title={meanings[l.state]}><Badge tone={tones[l.state]}>{l.state}</Badge></span> },
  { title: "Waiting", kind: "number", of: (l) => number(l.queued) },
  { title: "Connections", of: (l) => <Used use={l.connections} /> },
  { title: "Recipients/min", of: (l) => <Used use={l.recipients_per_minute} /> },
  { title: "Refusals/h", of: (l) => <Used use={l.refusals_per_hour} /> },
];

/** Used is how much of a budget is used: in numbers, and as a bar beside them. */
function Used({ use: { used, limit } }: { use: Schemas["Use"] }) {
  if (limit === 0) return <Text size="sm" c="dimmed">no limit</Text>;
  const part = Math.min(1, used / limit);
  return (
    <div style={{ minWidth: "6rem" }}>
      <Text size="sm" className="used" style={{ fontVariantNumeric: "tabular-nums" }}>
        {number(used)} <span className="word">of {number(limit)}</span>
      </Text>
      <div className="bar" aria-hidden style={{ height: ".3rem" }}>
        <i className={part > 0.9 ? "fill-INVALID" : part > 0.6 ? "fill-RISKY" : "fill-VALID"} style={{ width: `${part * 100}%` }} />
      </div>
    </div>
  );
}
