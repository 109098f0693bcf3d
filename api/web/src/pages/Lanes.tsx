import { Button, Group, SegmentedControl, Stack, Table, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, take, type Schemas } from "../api/client";
import { lanes } from "../api/queries";
import { number } from "../format";
import { Ask, Badge, Empty, Loaded, Moment, Panel } from "../parts";

type Lane = Schemas["Lane"];

const tones = { quarantined: "bad", paused: "fair", slowed: "fair", spent: "fair", waiting: "fair", busy: "busy", idle: "none" } as const;
const meanings: Record<Lane["state"], string> = {
  quarantined: "the receiver wants no more of this address for a time",
  paused: "nothing is sent for a while",
  slowed: "half of every budget",
  spent: "the budget is used up for now",
  waiting: "the last connections brought nothing",
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
                No receiver has sent an address of ours away.
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

function Quarantines({ list }: { list: Lane[] }) {
  const client = useQueryClient();
  const release = (l: Lane) => take(api.POST("/v1/dash/admin/lanes/release", { body: { node: l.node, egress: l.egress, route: l.route } }));
  return (
    <>
      <Text size="sm" c="dimmed" mb="xs">
        These receivers get nothing more from the address that they refused, and nothing from another in its place. Settle it with them; then end it here.
      </Text>
      <div className="scroll wide" tabIndex={0} role="region" aria-label="Quarantines">
        <Table verticalSpacing="sm">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Receiver</Table.Th>
              <Table.Th>Address of ours</Table.Th>
              <Table.Th>What it said</Table.Th>
              <Table.Th>Ends</Table.Th>
              <Table.Th>
                <span className="unseen">Release</span>
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {list.map((l) => (
              <Table.Tr key={`${l.node} ${l.egress} ${l.route}`} style={{ verticalAlign: "top" }}>
                <Table.Td style={{ overflowWrap: "anywhere" }} title={l.route}>
                  <b>{receiver(l)}</b>
                  <Text size="xs" c="dimmed">
                    {l.provider}
                  </Text>
                </Table.Td>
                <Table.Td>
                  {l.egress}
                  <Text size="xs" c="dimmed">
                    node {l.node}
                  </Text>
                </Table.Td>
                <Table.Td style={{ maxWidth: "26rem" }}>
                  <span className="mono">{l.reply ?? "It was said before this node started."}</span>
                  {l.rule && (
                    <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
                      {l.host}, read by rule <span className="mono">{l.rule}</span>, <Moment at={l.since} />
                    </Text>
                  )}
                </Table.Td>
                <Table.Td className="word">
                  <Moment at={l.until} />
                </Table.Td>
                <Table.Td className="num">
                  <Ask
                    label="Release"
                    title={`End the quarantine at ${receiver(l)}?`}
                    button={{ size: "compact-sm", "aria-label": `Release ${l.egress} at ${receiver(l)}` }}
                    act={() => release(l)}
                    done={() => void client.invalidateQueries({ queryKey: lanes.queryKey })}
                  >
                    {l.egress} will ask there again at once, within its budgets. If the receiver has not let it in again, it will refuse it again, and may do so for longer.
                  </Ask>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </div>
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
              {chosen.length === 0 ? <Empty icon="providers" title={which === "all" ? "No lane is in use: nothing was asked lately" : "No lane is like that now"} /> : <LaneTable list={shown} />}
              {chosen.length > shown.length && (
                <Group>
                  <Button size="compact-sm" variant="default" onClick={() => setAll(true)}>
                    Show all {number(chosen.length)}
                  </Button>
                </Group>
              )}
            </Stack>
          );
        }}
      </Loaded>
    </Panel>
  );
}

function LaneTable({ list }: { list: Lane[] }) {
  return (
    <div className="scroll wide" tabIndex={0} role="region" aria-label="Budgets">
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Receiver</Table.Th>
            <Table.Th>From</Table.Th>
            <Table.Th>State</Table.Th>
            <Table.Th className="num">Waiting</Table.Th>
            <Table.Th>Connections</Table.Th>
            <Table.Th>Recipients/min</Table.Th>
            <Table.Th>Refusals/h</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {list.map((l) => (
            <Table.Tr key={`${l.node} ${l.egress} ${l.route}`}>
              <Table.Td style={{ overflowWrap: "anywhere", maxWidth: "18rem" }} title={l.route}>
                {receiver(l)}
                {l.provider && l.provider !== "other" && (
                  <Text size="xs" c="dimmed">
                    {l.provider}
                  </Text>
                )}
              </Table.Td>
              <Table.Td title={`node ${l.node}`}>{l.egress}</Table.Td>
              <Table.Td title={meanings[l.state]}>
                <Badge tone={tones[l.state]}>{l.state}</Badge>
              </Table.Td>
              <Table.Td className="num">{number(l.queued)}</Table.Td>
              <Table.Td>
                <Used use={l.connections} />
              </Table.Td>
              <Table.Td>
                <Used use={l.recipients_per_minute} />
              </Table.Td>
              <Table.Td>
                <Used use={l.refusals_per_hour} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

/** Used is how much of a budget is used: in numbers, and as a bar beside them. */
function Used({ use: { used, limit } }: { use: Schemas["Use"] }) {
  if (limit === 0) return <Text size="sm" c="dimmed">no limit</Text>;
  const part = Math.min(1, used / limit);
  return (
    <div style={{ minWidth: "6.5rem" }}>
      <Text size="sm" className="word" style={{ fontVariantNumeric: "tabular-nums" }}>
        {number(used)} of {number(limit)}
      </Text>
      <div className="bar" aria-hidden style={{ height: ".3rem" }}>
        <i className={part > 0.9 ? "fill-INVALID" : part > 0.6 ? "fill-RISKY" : "fill-VALID"} style={{ width: `${part * 100}%` }} />
      </div>
    </div>
  );
}
