import { Alert, Button, Group, Menu, Modal, NumberInput, Select, Stack, Table, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent, type ReactNode } from "react";
import { api, take, type JobStatus, type Schemas } from "../api/client";
import { allJobs, session, suppressions, users } from "../api/queries";
import { number } from "../format";
import { Ask, Badge, Code, Empty, Icon, Loaded, Moment, Page, Panel, Trouble } from "../parts";
import { JobTable } from "../parts/JobTable";

type User = Schemas["User"];

/** Users makes accounts and changes what they may do. */
export function Users() {
  const query = useQuery(users);
  const [adding, setAdding] = useState(false);
  const [find, setFind] = useState("");
  return (
    <Page
      title="Users"
      note="Accounts are made here or on the command line; there is no open sign-up."
      actions={
        <Button leftSection={<Icon name="users" size={16} />} onClick={() => setAdding(true)}>
          Add a user
        </Button>
      }
    >
      <Add opened={adding} close={() => setAdding(false)} />
      <Panel>
        <TextInput aria-label="Find an account" placeholder="Find by e-mail address" value={find} onChange={(e) => setFind(e.currentTarget.value)} mb="sm" maw="22rem" leftSection={<Icon name="search" size={16} />} />
        <Loaded query={query} what="accounts">
          {(list) => {
            const shown = list.filter((u) => u.email.toLowerCase().includes(find.trim().toLowerCase()));
            if (shown.length === 0) return <Empty icon="users" title={`No account has "${find}" in its address`} />;
            return (
              <div className="scroll" tabIndex={0} role="region" aria-label="Accounts">
                <Table verticalSpacing="sm">
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th>Account</Table.Th>
                      <Table.Th>Role</Table.Th>
                      <Table.Th>State</Table.Th>
                      <Table.Th className="num">Balance</Table.Th>
                      <Table.Th>Own limits</Table.Th>
                      <Table.Th>Since</Table.Th>
                      <Table.Th><span className="unseen">Actions</span>
                      </Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {shown.map((u) => (
                      <Row key={u.id} user={u} />
                    ))}
                  </Table.Tbody>
                </Table>
              </div>
            );
          }}
        </Loaded>
      </Panel>
    </Page>
  );
}

const creditsOf = (u: User) => ({
  queryKey: ["creditsof", u.id],
  queryFn: () => take(api.GET("/v1/admin/credits", { params: { query: { user: u.id } } })),
});

function limitsText(l: User["limits"]): string {
  const parts = [];
  if (l.single_per_minute) parts.push(`${number(l.single_per_minute)} single/min`);
  if (l.bulk_per_hour) parts.push(`${number(l.bulk_per_hour)} lists/h`);
  return parts.join(", ") || "—";
}

function Row({ user: u }: { user: User }) {
  const client = useQueryClient();
  const me = useQuery(session).data?.user.id === u.id;
  const balance = useQuery(creditsOf(u));
  const [open, setOpen] = useState<"credits" | "limits" | "disable" | null>(null);
  const refresh = () => {
    void client.invalidateQueries({ queryKey: users.queryKey });
    void client.invalidateQueries({ queryKey: ["creditsof", u.id] });
    void client.invalidateQueries({ queryKey: ["credits"] });
  };
  const enable = useMutation({ mutationFn: () => take(api.POST("/v1/admin/users/{user}/enable", { params: { path: { user: u.id } } })), onSettled: refresh });
  return (
    <Table.Tr>
      <Table.Td fw={600} style={{ overflowWrap: "anywhere" }}>
        {u.email}
        {me && (
          <Text component="span" size="xs" c="dimmed" fw={400}>
            {" "}
            (you)
          </Text>
        )}
      </Table.Td>
      <Table.Td>{u.role}</Table.Td>
      <Table.Td>{u.disabled ? <Badge tone="bad">disabled</Badge> : <Badge tone="good">active</Badge>}</Table.Td>
      <Table.Td className="num">{balance.data ? number(balance.data.balance) : "…"}</Table.Td>
      <Table.Td>{limitsText(u.limits)}</Table.Td>
      <Table.Td>
        <Moment at={u.created_at} />
      </Table.Td>
      <Table.Td className="num">
        <Menu position="bottom-end">
          <Menu.Target>
            <Button size="compact-sm" variant="default" aria-label={`Change ${u.email}`}>
              Change
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item onClick={() => setOpen("credits")}>Grant credits</Menu.Item>
            <Menu.Item onClick={() => setOpen("limits")}>Set limits</Menu.Item>
            {u.disabled ? (
              <Menu.Item onClick={() => enable.mutate()}>Enable</Menu.Item>
            ) : (
              <Menu.Item onClick={() => setOpen("disable")} disabled={me}>
                Disable
              </Menu.Item>
            )}
          </Menu.Dropdown>
        </Menu>
        <Grant user={u} opened={open === "credits"} close={() => setOpen(null)} done={refresh} />
        <Limits user={u} opened={open === "limits"} close={() => setOpen(null)} done={refresh} />
        <Disable user={u} opened={open === "disable"} close={() => setOpen(null)} done={refresh} />
      </Table.Td>
    </Table.Tr>
  );
}

interface DialogProps {
  user: User;
  opened: boolean;
  close: () => void;
  done: () => void;
}

/** Dialog is a small form that ends when its act has. */
function Dialog({ title, opened, close, act, verb, children, color }: { title: string; opened: boolean; close: () => void; act: () => Promise<unknown>; verb: string; children: ReactNode; color?: string }) {
  const run = useMutation({ mutationFn: act, onSuccess: close });
  function submit(e: FormEvent) {
    e.preventDefault();
    run.mutate();
  }
  return (
    <Modal opened={opened} onClose={close} title={title} centered closeButtonProps={{ "aria-label": "Close" }}>
      <form onSubmit={submit}>
        <Stack ta="left">
          {children}
          {run.error && <Trouble error={run.error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close}>
              Not now
            </Button>
            <Button type="submit" loading={run.isPending} color={color}>
              {verb}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

function Grant({ user, opened, close, done }: DialogProps) {
  const [amount, setAmount] = useState<number | string>(1000);
  const [note, setNote] = useState("");
  return (
    <Dialog
      title={`Credits of ${user.email}`}
      opened={opened}
      close={close}
      verb="Grant"
      act={async () => {
        await take(api.POST("/v1/admin/credits", { body: { user: user.id, amount: Number(amount), note } }));
        done();
      }}
    >
      <NumberInput label="Credits" description="Below zero takes back what the balance covers" value={amount} onChange={setAmount} thousandSeparator="," allowDecimal={false} required data-autofocus />
      <TextInput label="Note" description="Stands in the ledger" value={note} maxLength={200} onChange={(e) => setNote(e.currentTarget.value)} />
    </Dialog>
  );
}

function Limits({ user, opened, close, done }: DialogProps) {
  const [single, setSingle] = useState<number | string>(user.limits.single_per_minute ?? 0);
  const [bulk, setBulk] = useState<number | string>(user.limits.bulk_per_hour ?? 0);
  return (
    <Dialog
      title={`Limits of ${user.email}`}
      opened={opened}
      close={close}
      verb="Set"
      act={async () => {
        await take(api.PUT("/v1/admin/users/{user}/limits", { params: { path: { user: user.id } }, body: { single_per_minute: Number(single), bulk_per_hour: Number(bulk) } }));
        done();
      }}
    >
      <NumberInput label="Single checks a minute" description="0 is the default, 30" min={0} max={1_000_000} value={single} onChange={setSingle} data-autofocus />
      <NumberInput label="Lists an hour" description="0 is the default, 10" min={0} max={1_000_000} value={bulk} onChange={setBulk} />
    </Dialog>
  );
}

function Disable({ user, opened, close, done }: DialogProps) {
  return (
    <Dialog
      title={`Disable ${user.email}?`}
      opened={opened}
      close={close}
      verb="Disable"
      color="red"
      act={async () => {
        await take(api.POST("/v1/admin/users/{user}/disable", { params: { path: { user: user.id } } }));
        done();
      }}
    >
      <Text size="sm">Its keys are refused and its sessions end at once. Its jobs finish. It can be enabled again.</Text>
    </Dialog>
  );
}

function Add({ opened, close }: { opened: boolean; close: () => void }) {
  const client = useQueryClient();
  const [email, setEmail] = useState("");
  const [role, setRole] = useState("customer");
  const [amount, setAmount] = useState<number | string>(0);
  const add = useMutation({
    mutationFn: () => take(api.POST("/v1/admin/users", { body: { email, role: role as "customer", credits: Number(amount) } })),
    onSuccess: () => void client.invalidateQueries({ queryKey: users.queryKey }),
  });
  function leave() {
    close();
    add.reset();
    setEmail("");
    setRole("customer");
    setAmount(0);
  }
  return (
    <Modal opened={opened} onClose={leave} title="Add a user" centered closeOnClickOutside={!add.data} closeButtonProps={{ "aria-label": "Close" }}>
      {add.data ? (
        <Stack>
          <Alert color="yellow" icon={<Icon name="warn" />} styles={{ message: { color: "inherit" } }}>
            This password is shown once. Give it to {add.data.email}, who can change it under Account.
          </Alert>
          <Code text={add.data.password} label="The password" copy="Copy the password" />
          <Group justify="flex-end">
            <Button onClick={leave}>I have it</Button>
          </Group>
        </Stack>
      ) : (
        <form
          onSubmit={(e) => {
            e.preventDefault();
            add.mutate();
          }}
        >
          <Stack>
            <TextInput label="E-mail address" type="email" required value={email} onChange={(e) => setEmail(e.currentTarget.value)} data-autofocus />
            <Select label="Role" data={["customer", "admin"]} value={role} onChange={(v) => setRole(v ?? "customer")} allowDeselect={false} />
            <NumberInput label="First credits" min={0} value={amount} onChange={setAmount} thousandSeparator="," allowDecimal={false} />
            {add.error && <Trouble error={add.error} />}
            <Group justify="flex-end">
              <Button variant="default" onClick={leave}>
                Not now
              </Button>
              <Button type="submit" loading={add.isPending}>
                Add
              </Button>
            </Group>
          </Stack>
        </form>
      )}
    </Modal>
  );
}

/** AllJobs is what the service works on, for whom. What is in a list is its owner's alone. */
export function AllJobs() {
  const [status, setStatus] = useState<JobStatus | "">("");
  const query = useQuery(allJobs(status));
  return (
    <Page title="Jobs of all" note="The newest jobs of every account. Operators see how they go, not what is in them.">
      <Panel
        title={query.data ? `${number(query.data.total)} jobs` : "Jobs"}
        actions={
          <Select
            size="xs"
            aria-label="Show jobs in the state"
            data={[{ value: "", label: "All states" }, ...["queued", "running", "paused", "finalizing", "completed", "cancelled", "failed", "expired"]]}
            value={status}
            onChange={(v) => setStatus((v ?? "") as JobStatus | "")}
            allowDeselect={false}
            w="10rem"
          />
        }
      >
        <Loaded query={query} what="jobs">
          {({ jobs }) => (jobs.length === 0 ? <Empty icon="lists" title={status ? `No ${status} jobs` : "No jobs yet"} /> : <JobTable jobs={jobs} owner={(j) => (j as (typeof jobs)[number]).user} link={false} />)}
        </Loaded>
      </Panel>
    </Page>
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
    <Page title="Suppressions" note="Receivers and people who asked not to be probed. What is here is answered UNKNOWN, smtp_not_checked, from the next request on.">
      <Panel title="Suppress">
        <form
          onSubmit={(e) => {
            e.preventDefault();
            add.mutate();
          }}
        >
          <Group align="flex-end">
            <Select label="What" data={[{ value: "domain", label: "Domain, with all below it" }, { value: "mx", label: "MX name, with all below it" }, { value: "address", label: "Address" }]} value={kind} onChange={(v) => setKind((v ?? "domain") as typeof kind)} allowDeselect={false} w="15rem" />
            <TextInput label="Name" required value={name} onChange={(e) => setName(e.currentTarget.value)} placeholder={kind === "address" ? "ann@example.com" : "example.com"} style={{ flex: "1 1 14rem" }} />
            <TextInput label="Note" value={note} maxLength={200} onChange={(e) => setNote(e.currentTarget.value)} placeholder="who asked, and when" style={{ flex: "1 1 14rem" }} />
            <Button type="submit" loading={add.isPending}>
              Suppress
            </Button>
          </Group>
          {add.error && <Trouble error={add.error} />}
        </form>
      </Panel>
      <Panel title="Never probed">
        <Loaded query={query} what="the list">
          {(list) =>
            list.length === 0 ? (
              <Empty icon="stop" title="Nobody has asked yet" />
            ) : (
              <div className="scroll" tabIndex={0} role="region" aria-label="Suppressions">
                <Table>
                  <Table.Thead>
                    <Table.Tr>
                      <Table.Th>What</Table.Th>
                      <Table.Th>Name</Table.Th>
                      <Table.Th>Note</Table.Th>
                      <Table.Th>Since</Table.Th>
                      <Table.Th><span className="unseen">Remove</span>
                      </Table.Th>
                    </Table.Tr>
                  </Table.Thead>
                  <Table.Tbody>
                    {list.map((s) => (
                      <Table.Tr key={s.kind + s.name}>
                        <Table.Td>{s.kind}</Table.Td>
                        <Table.Td className="mono">{s.name}</Table.Td>
                        <Table.Td>{s.note}</Table.Td>
                        <Table.Td>
                          <Moment at={s.since} />
                        </Table.Td>
                        <Table.Td className="num">
                          <Ask
                            label="Remove"
                            verb="Probe it again"
                            title={`Probe ${s.name} again?`}
                            button={{ size: "compact-sm", "aria-label": `Remove ${s.name}` }}
                            act={() => take(api.DELETE("/v1/admin/suppressions", { params: { query: { kind: s.kind, name: s.name } } }))}
                            done={refresh}
                          >
                            Somebody asked that it never be. Remove it only if they take that back.
                          </Ask>
                        </Table.Td>
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              </div>
            )
          }
        </Loaded>
      </Panel>
      <Erase />
    </Page>
  );
}

function Erase() {
  const [address, setAddress] = useState("");
  const [said, setSaid] = useState("");
  return (
    <Panel title="Forget a person">
      <Group align="flex-end">
        <TextInput label="Address" description="It is removed from caches and from stored results" value={address} onChange={(e) => setAddress(e.currentTarget.value)} style={{ flex: "1 1 16rem" }} />
        <Ask
          label="Erase"
          verb="Erase it"
          title={`Erase ${address || "an address"}?`}
          act={async () => {
            const done = await take(api.POST("/v1/admin/erase", { body: { address } }));
            setSaid(`Removed from ${number(done.cached)} cached verdicts and the results of ${number(done.jobs)} jobs.`);
            setAddress("");
          }}
        >
          This cannot be undone.
        </Ask>
      </Group>
      <Text size="sm" mt="xs" role="status">
        {said}
      </Text>
    </Panel>
  );
}
