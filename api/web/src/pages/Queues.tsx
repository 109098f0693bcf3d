import { SegmentedControl, Stack, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, take, type Schemas } from "../api/client";
import { readyQueues } from "../api/queries";
import { number } from "../format";
import { Ask, Badge, Empty, Loaded, Moment, Name, Note, Panel, Rows, type Column } from "../parts";
import { DataTable } from "../parts/DataTable";

type Queue = Schemas["ReadyQueue"];

const tones = { quarantined: "bad", paused: "fair", slowed: "fair", exhausted: "fair", waiting: "fair", busy: "busy", idle: "none" } as const;
const meanings: Record<Queue["state"], string> = {
  quarantined: "receiver refused this source IP; probing stopped",
  paused: "nothing is sent for a while",
  slowed: "half of every budget",
  exhausted: "the budget is used up for now",
  waiting: "recent connections failed; backing off",
  busy: "at work",
  idle: "nothing to do",
};

/** receiver names a queue's route for people: its first host stands for a long set. */
export function receiver(l: Pick<Queue, "route" | "provider">): string {
  if (l.route === "") return "every receiver";
  const [first, ...more] = l.route.split(",");
  return more.length > 0 ? `${first} and ${more.length} more` : first!;
}

/** Queues are the budgets towards receivers: first what receivers refuse, then what is used. */
export function Queues() {
  return (
    <>
      <Quarantined />
      <Budgets query={useQuery(readyQueues)} />
    </>
  );
}

/** Quarantined are the receivers that refused a source IP. */
export function Quarantined() {
  const query = useQuery(readyQueues);
  return (
    <Panel title="Quarantines">
      <Loaded query={{ ...query, data: query.data?.ready_queues.filter((l) => l.state === "quarantined") }} what="the queues">
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
  );
}

const keyOf = (l: Queue) => `${l.node} ${l.egress} ${l.route}`;

/** Receiver names where a queue leads, with its provider where that tells more. */
function Receiver({ queue: l, strong = false }: { queue: Queue; strong?: boolean }) {
  const wide = l.route !== "" && !l.route.includes(".");
  const name = wide && l.provider ? l.provider : receiver(l);
  return (
    <span title={l.route}>
      {strong ? <b><Name text={name} /></b> : <Name text={name} />}
      {!wide && l.provider && l.provider !== "other" && <Note>{l.provider}</Note>}
    </span>
  );
}

function Ours({ queue: l }: { queue: Queue }) {
  return (
    <>
      {l.egress}
      <Note>node {l.node}</Note>
    </>
  );
}

function Said({ queue: l }: { queue: Queue }) {
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

function Release({ queue: l }: { queue: Queue }) {
  const client = useQueryClient();
  return (
    <Ask
      label="Release"
      title={`End the quarantine at ${receiver(l)}?`}
      button={{ size: "compact-sm", "aria-label": `Release ${l.egress} at ${receiver(l)}` }}
      act={() => take(api.POST("/v1/dash/admin/quarantines/end", { body: { node: l.node, egress: l.egress, route: l.route } }))}
      done={() => void client.invalidateQueries({ queryKey: readyQueues.queryKey })}
    >
      {l.egress} will probe there again at once, within its budgets. If the receiver still blocks it, the quarantine may return and last longer.
    </Ask>
  );
}

function Quarantines({ list }: { list: Queue[] }) {
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
          { title: "Receiver", kind: "name", of: (l) => <Receiver queue={l} strong /> },
          { title: "Source IP", of: (l) => <Ours queue={l} /> },
          { title: "Reply", kind: "text", of: (l) => <Said queue={l} /> },
          { title: "Ends", of: (l) => <Moment at={l.until} /> },
          { title: "Release", kind: "act", of: (l) => <Release queue={l} /> },
        ]}
      />
    </>
  );
}

type Which = "held" | "busy" | "all";
const held = (l: Pick<Queue, "state">) => l.state !== "busy" && l.state !== "idle";

/** choose picks the queues to show; of those that are held back, the one that holds the most rows is the first. */
export function choose<Q extends Pick<Queue, "state" | "queued">>(list: readonly Q[], which: Which): Q[] {
  if (which === "all") return [...list];
  if (which === "busy") return list.filter((l) => l.state === "busy");
  return list.filter((l) => held(l)).sort((a, b) => b.queued - a.queued);
}

function Budgets({ query }: { query: ReturnType<typeof useQuery<{ ready_queues: Queue[]; unresponsive: string[] }>> }) {
  const [which, setWhich] = useState<Which>("all");
  return (
    <Panel
      title="Budgets"
      actions={
        <SegmentedControl
          size="xs"
          aria-label="Which queues"
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
      <Loaded query={query} what="the queues">
        {({ ready_queues: list, unresponsive }) => {
          const chosen = choose(list, which);
          return (
            <Stack gap="sm">
              {unresponsive.length > 0 && (
                <Text size="sm" className="ink-bad" role="status">
                  {unresponsive.join(", ")} cannot be asked: {unresponsive.length === 1 ? "its queues are" : "their queues are"} not listed.
                </Text>
              )}
              {chosen.length === 0 ? (
                <Empty icon="providers" title={which === "all" ? "No queues in use" : "No matching queues"}>
                  {which === "all" ? "A queue appears when a receiver is asked." : "Choose All to see every queue."}
                </Empty>
              ) : (
                <DataTable label="Budgets" columns={columns} rows={chosen} keyOf={keyOf} pageSize={15} find={{ text: (l) => [l.route, l.provider, l.egress, l.node, l.state].join(" "), placeholder: "Find by receiver or source" }} />
              )}
            </Stack>
          );
        }}
      </Loaded>
    </Panel>
  );
}

const part = (u: Schemas["Use"]) => (u.limit === 0 ? 0 : u.used / u.limit);

const columns: Column<Queue>[] = [
  { title: "Receiver", kind: "name", by: (l) => l.provider || l.route, of: (l) => <Receiver queue={l} /> },
  { title: "From", by: (l) => l.egress, of: (l) => <span title={`node ${l.node}`}>{l.egress}</span> },
  { title: "State", by: (l) => l.state, of: (l) => <span title={meanings[l.state]}><Badge tone={tones[l.state]}>{l.state}</Badge></span> },
  { title: "Opens", by: (l) => (held(l) ? l.until : null), of: (l) => held(l) && <Moment at={l.until} none="not known" /> },
  { title: "Waiting", kind: "number", by: (l) => l.queued, of: (l) => number(l.queued) },
  { title: "Connections", by: (l) => part(l.connections), of: (l) => <Used use={l.connections} /> },
  { title: "Recipients/min", by: (l) => part(l.recipients_per_minute), of: (l) => <Used use={l.recipients_per_minute} /> },
  { title: "Refusals/h", by: (l) => part(l.refusals_per_hour), of: (l) => <Used use={l.refusals_per_hour} /> },
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
