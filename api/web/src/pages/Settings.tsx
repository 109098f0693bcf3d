import { Button, Checkbox, Group, Modal, Stack, Switch, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState, type FormEvent } from "react";
import { api, take, type Key, type Schemas } from "../api/client";
import { keys, session, signing } from "../api/queries";
import { Ask, Badge, Cut, Code, Empty, Icon, Loaded, Moment, Note, Page, Panel, Rows, To, Trouble, Warning, type Column } from "../parts";

/** keyColumns tell what a key is and may do. */
export const keyColumns: Column<Key>[] = [
  { title: "Name", kind: "name", of: (k) => <b><Cut text={k.name} /></b> },
  { title: "Key", of: (k) => <span className="mono word">{k.test ? "prb_test_" : "prb_live_"}…{k.last4}</span> },
  { title: "Kind", of: (k) => (k.test ? <Badge tone="none">test</Badge> : <Badge tone="good">live</Badge>) },
  { title: "Access", of: (k) => <Opens apiKey={k} /> },
  { title: "Created", of: (k) => <Moment at={k.created_at} /> },
  { title: "Expires", of: (k) => (k.expires_at ? <Moment at={k.expires_at} /> : "never") },
  { title: "Last used", of: (k) => <Moment at={k.last_used_at} /> },
];

const columns: Column<Key>[] = [...keyColumns, { title: "Revoke", kind: "act", of: (k) => <Revoke apiKey={k} /> }];

type Scope = Schemas["Scopes"][number];

const scopes: { value: Scope; label: string; description: string }[] = [
  { value: "verify", label: "Verify", description: "Single addresses" },
  { value: "jobs", label: "Jobs", description: "Upload lists, follow them, download their results" },
  { value: "account", label: "Account", description: "Read the balance; a key that verifies can do so too" },
  { value: "admin", label: "Admin", description: "Everything an admin does: users, keys, credits, backups" },
];

/** Opens tells what a key may do, and from where. */
function Opens({ apiKey: k }: { apiKey: Key }) {
  return (
    <>
      {k.scopes.join(", ")}
      {k.networks.length > 0 && <Note>only from {k.networks.join(", ")}</Note>}
    </>
  );
}

function Revoke({ apiKey: k }: { apiKey: Key }) {
  const client = useQueryClient();
  return (
    <Ask
      label="Revoke"
      verb={`Revoke ${k.name}`}
      title={`Revoke the key "${k.name}"?`}
      button={{ size: "compact-sm", "aria-label": `Revoke ${k.name}` }}
      act={() => take(api.DELETE("/v1/dash/keys/{key_id}", { params: { path: { key_id: k.id } } }))}
      done={() => void client.invalidateQueries({ queryKey: keys.queryKey })}
    >
      Requests with this key will be rejected immediately. Running jobs continue. This cannot be undone.
    </Ask>
  );
}

/** Keys makes, lists and revokes API keys. */
export function Keys() {
  const client = useQueryClient();
  const query = useQuery(keys);
  const [open, setOpen] = useState(false);
  const refresh = () => client.invalidateQueries({ queryKey: keys.queryKey });
  return (
    <Page
      title="API keys"
      note={
        <>
          A key lets a program act for your account; it is shown only once, when it is created. Test keys are free and never contact mail servers. <To to="/docs">How to use one</To>.
        </>
      }
      actions={
        <Button leftSection={<Icon name="key" size={16} />} onClick={() => setOpen(true)}>
          Create a key
        </Button>
      }
    >
      <Create opened={open} close={() => setOpen(false)} made={() => void refresh()} />
      <Panel>
        <Loaded query={query} what="your keys">
          {(list) =>
            list.length === 0 ? (
              <Empty icon="key" title="No keys yet">
                A program needs one to verify addresses for you. Create a key above; a test key is free.
              </Empty>
            ) : (
              <Rows label="API keys" columns={columns} rows={list.toSorted((a, b) => b.created_at.localeCompare(a.created_at))} keyOf={(k) => k.id} />
            )
          }
        </Loaded>
      </Panel>
    </Page>
  );
}

function Create({ opened, close, made }: { opened: boolean; close: () => void; made: () => void }) {
  const [name, setName] = useState("");
  const [test, setTest] = useState(false);
  const [chosen, setChosen] = useState<string[]>(["verify", "jobs"]);
  const [until, setUntil] = useState("");
  const [networks, setNetworks] = useState("");
  const admin = useQuery(session).data?.user.role === "admin";
  const offered = scopes.filter((s) => s.value !== "admin" || (admin && !test));
  const create = useMutation({
    mutationFn: () =>
      take(
        api.POST("/v1/dash/keys", {
          body: {
            name: name.trim(),
            test,
            scopes: offered.map((s) => s.value).filter((s) => chosen.includes(s)),
            ...(networks.trim() && { networks: networks.split(/[\s,]+/).filter(Boolean) }),
            ...(until && { expires_at: new Date(`${until}T23:59:59`).toISOString() }),
          },
        }),
      ),
    onSuccess: made,
  });
  function leave() {
    close();
    create.reset();
    setName("");
    setTest(false);
    setChosen(["verify", "jobs"]);
    setUntil("");
    setNetworks("");
  }
  function submit(e: FormEvent) {
    e.preventDefault();
    create.mutate();
  }
  const key = create.data;
  return (
    <Modal opened={opened} onClose={leave} title={key ? "Your new key" : "Create an API key"} centered size="lg" closeOnClickOutside={!key} closeButtonProps={{ "aria-label": "Close" }}>
      {key ? (
        <Stack>
          <Warning>
            Copy your key now. You will not be able to see it again.
          </Warning>
          <Code text={key.key} label={`The key ${key.name}`} copy="Copy the key" whole />
          <Group justify="flex-end">
            <Button onClick={leave}>Done</Button>
          </Group>
        </Stack>
      ) : (
        <form onSubmit={submit}>
          <Stack>
            <TextInput label="Name" description="For example: shop or crm" value={name} onChange={(e) => setName(e.currentTarget.value)} maxLength={100} required data-autofocus />
            <Switch label="Test key" description="Free; contacts no mail servers. <reason>@example.com returns that reason." checked={test} onChange={(e) => setTest(e.currentTarget.checked)} />
            <Checkbox.Group label="Access" value={chosen} onChange={setChosen} required>
              <Stack gap="xs" mt="xs">
                {offered.map((s) => (
                  <Checkbox key={s.value} value={s.value} label={s.label} description={s.description} />
                ))}
              </Stack>
            </Checkbox.Group>
            <TextInput label="Last day" description="It is refused from the day after; empty for a key that does not expire" type="date" value={until} onChange={(e) => setUntil(e.currentTarget.value)} />
            <TextInput label="Networks" description="Where it may be used from, such as 192.0.2.0/24 2001:db8::/48; empty for anywhere" value={networks} onChange={(e) => setNetworks(e.currentTarget.value)} spellCheck={false} autoComplete="off" />
            {create.error && <Trouble error={create.error} />}
            <Group justify="flex-end">
              <Button variant="default" onClick={leave}>
                Cancel
              </Button>
              <Button type="submit" loading={create.isPending} disabled={!offered.some((s) => chosen.includes(s.value))}>
                Create
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Modal>
  );
}

/** Callbacks is how a receiver can trust and try what it gets. */
export function Callbacks() {
  const client = useQueryClient();
  const query = useQuery(signing);
  const refresh = () => client.invalidateQueries({ queryKey: signing.queryKey });
  const make = useMutation({ mutationFn: () => take(api.POST("/v1/callback-secret")), onSuccess: () => void refresh() });
  return (
    <Page title="Callbacks" note="When a job is done, its results are POSTed to the URL that came with the list. Use a signing secret to verify that callbacks come from us.">
      <Loaded query={query} what="the settings">
        {(s) => (
          <>
            <Panel title="Signature" actions={s.signed ? <Badge tone="good">signed</Badge> : <Badge tone="none">not signed</Badge>}>
              <Stack align="flex-start">
                <Text size="sm">
                  {s.signed
                    ? `Callbacks are signed (Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature) with the secret ending in ${s.last4}.`
                    : "Callbacks are not signed. Create a secret to sign them (Standard Webhooks headers)."}
                </Text>
                {make.data && (
                  <Stack w="100%" gap="xs">
                    <Warning>
                      Copy the secret now. You will not be able to see it again.
                    </Warning>
                    <Code text={make.data.secret} label="The signing secret" copy="Copy the secret" whole />
                  </Stack>
                )}
                {make.error && <Trouble error={make.error} />}
                <Group>
                  {s.signed ? (
                    <>
                      <Ask label="Create a new secret" color="ink" title="Create a new secret?" act={() => make.mutateAsync()}>
                        The current secret stays valid for 24 hours. Give your receiver the new one before that.
                      </Ask>
                      <Ask
                        label="Stop signing"
                        title="Stop signing callbacks?"
                        act={async () => {
                          await take(api.DELETE("/v1/callback-secret"));
                          make.reset();
                          await refresh();
                        }}
                      >
                        Your receiver will no longer be able to verify callbacks.
                      </Ask>
                    </>
                  ) : (
                    <Button onClick={() => make.mutate()} loading={make.isPending}>
                      Create signing secret
                    </Button>
                  )}
                </Group>
              </Stack>
            </Panel>
            <Panel title="Where callbacks come from">
              {s.origins.length === 0 ? (
                <Text size="sm" c="dimmed">
                  No fixed source IPs are configured. Verify the signature instead.
                </Text>
              ) : (
                <ul style={{ margin: 0 }}>
                  {s.origins.map((o) => (
                    <li key={o} className="mono">
                      {o}
                    </li>
                  ))}
                </ul>
              )}
            </Panel>
          </>
        )}
      </Loaded>
      <Try />
    </Page>
  );
}

function Try() {
  const [url, setUrl] = useState("");
  const navigate = useNavigate();
  const client = useQueryClient();
  const send = useMutation({
    mutationFn: () => take(api.POST("/v1/dash/callbacks/test", { body: { url } })),
    onSuccess: (job) => {
      client.setQueryData(["job", job.job_id], job);
      void client.invalidateQueries({ queryKey: ["jobs"] });
      void navigate({ to: "/lists/$jobId", params: { jobId: job.job_id } });
    },
  });
  return (
    <Panel title="Send a test callback">
      <form
        onSubmit={(e) => {
          e.preventDefault();
          send.mutate();
        }}
      >
        <Stack>
          <Text size="sm">Sends a real callback with four sample results. It is free and contacts no mail servers; the page of its job shows each attempt.</Text>
          <Group align="flex-end">
            <TextInput label="Callback URL" type="url" placeholder="https://example.com/hook" required value={url} onChange={(e) => setUrl(e.currentTarget.value)} style={{ flex: "1 1 18rem" }} />
            <Button type="submit" variant="default" loading={send.isPending}>
              Send a test
            </Button>
          </Group>
          {send.error && <Trouble error={send.error} />}
        </Stack>
      </form>
    </Panel>
  );
}
