import { Button, Group, Select, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, take, type Schemas } from "../api/client";
import { erasures, suppressions } from "../api/queries";
import { counted, exactly } from "../format";
import { Ask, Cut, Empty, Loaded, Moment, Name, Page, Panel, Rows, Trouble } from "../parts";

type Wish = Schemas["Suppression"];

const kinds: Record<Wish["kind"], string> = { domain: "Domain, with all below it", mx: "MX name, with all below it", address: "Address" };

function Remove({ wish: s, done }: { wish: Wish; done: () => void }) {
  return (
    <Ask
      label="Remove"
      verb="Probe it again"
      title={`Probe ${s.name} again?`}
      button={{ size: "compact-sm", "aria-label": `Remove ${s.name}` }}
      act={() => take(api.DELETE("/v1/admin/suppressions", { params: { query: { kind: s.kind, name: s.name } } }))}
      done={done}
    >
      They opted out. Remove only if they withdrew the request.
    </Ask>
  );
}

/** Suppressions is who is never probed, and who is forgotten. */
export function Suppressions() {
  const client = useQueryClient();
  const query = useQuery(suppressions);
  const [kind, setKind] = useState<"domain" | "mx" | "address">("domain");
  const [name, setName] = useState("");
  const [note, setNote] = useState("");
  const refresh = () => void client.invalidateQueries({ queryKey: suppressions.queryKey });
  const add = useMutation({
    mutationFn: () => take(api.POST("/v1/admin/suppressions", { body: { kind, name, note } })),
    onSuccess: () => {
      setName("");
      setNote("");
      refresh();
    },
  });
  return (
    <Page title="Suppressions" note="Receivers and people who opted out. Matching addresses return UNKNOWN (smtp_not_checked).">
      <Panel title="Suppress">
        <form
          onSubmit={(e) => {
            e.preventDefault();
            add.mutate();
          }}
        >
          <Group className="asks" align="flex-end">
            <Select label="What" data={Object.entries(kinds).map(([value, label]) => ({ value, label }))} value={kind} onChange={(v) => setKind((v ?? "domain") as typeof kind)} allowDeselect={false} w="15rem" />
            <TextInput label="Name" required value={name} onChange={(e) => setName(e.currentTarget.value)} placeholder={kind === "address" ? "ann@example.com" : "example.com"} style={{ flex: "1 1 14rem" }} />
            <TextInput label="Note" value={note} maxLength={200} onChange={(e) => setNote(e.currentTarget.value)} placeholder="who asked, and when" style={{ flex: "1 1 14rem" }} />
            <Button type="submit" loading={add.isPending}>
              Suppress
            </Button>
          </Group>
          {add.error && <Trouble error={add.error} />}
        </form>
      </Panel>
      <Panel title="Suppression list">
        <Loaded query={query} what="the list">
          {(list) =>
            list.length === 0 ? (
              <Empty icon="stop" title="No suppressions yet">
                When a receiver or a person asks not to be probed, enter them above: no mail server is asked about them from then on.
              </Empty>
            ) : (
              <Rows
                label="Suppressions"
                rows={list}
                keyOf={(s) => s.kind + s.name}
                columns={[
                  { title: "Name", kind: "name", of: (s) => <b><Cut text={s.name} /></b> },
                  { title: "What", kind: "name", of: (s) => kinds[s.kind] },
                  { title: "Note", kind: "text", of: (s) => s.note },
                  { title: "Since", of: (s) => <Moment at={s.since} /> },
                  { title: "Remove", kind: "act", of: (s) => <Remove wish={s} done={refresh} /> },
                ]}
              />
            )
          }
        </Loaded>
      </Panel>
      <Erase />
    </Page>
  );
}

/** told is a receipt in words. */
export function told(r: Schemas["Receipt"]): string {
  const reached = `Removed from ${counted(r.jobs, "job")} (${counted(r.rows, "row")}) and ${counted(r.cached, "cached verdict")}.`;
  if (r.status === "done") return reached;
  const left = r.ages_out.map((a) => (a.until ? `${a.what} (goes by itself by ${exactly(a.until)})` : a.what)).join(", ");
  return `${reached} Not reached yet: ${left || r.problem || "it goes on"}. It is tried again each minute.`;
}

function Erase() {
  const client = useQueryClient();
  const query = useQuery(erasures);
  const [address, setAddress] = useState("");
  const [said, setSaid] = useState("");
  return (
    <Panel title="Erase an address (GDPR)">
      <Group align="flex-end">
        <TextInput label="Address" description="It is removed from caches and from stored results. The audit log says that it was done, not to whom" value={address} onChange={(e) => setAddress(e.currentTarget.value)} style={{ flex: "1 1 16rem" }} />
        <Ask
          label="Erase"
          verb="Erase it"
          title={`Erase ${address}?`}
          button={{ disabled: address.trim() === "" }}
          act={async () => {
            setSaid(told(await take(api.POST("/v1/admin/erase", { body: { address } }))));
            setAddress("");
            void client.invalidateQueries({ queryKey: erasures.queryKey });
          }}
        >
          This cannot be undone.
        </Ask>
      </Group>
      <Text size="sm" mt="xs" mb="sm" role="status">
        {said}
      </Text>
      <Loaded query={query} what="the receipts">
        {(list) =>
          list.length > 0 && (
            <Rows
              label="Receipts"
              rows={list}
              keyOf={(r) => r.erasure_id}
              columns={[
                { title: "Receipt", kind: "name", of: (r) => <Name text={r.erasure_id} /> },
                { title: "Asked", of: (r) => <Moment at={r.asked_at} /> },
                { title: "SHA-256 of the address", kind: "name", of: (r) => <Name text={r.address_sha256} /> },
                { title: "Reached", kind: "text", of: told },
              ]}
            />
          )
        }
      </Loaded>
    </Panel>
  );
}
