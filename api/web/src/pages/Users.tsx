import { Button, Group, Menu, Modal, NumberInput, Select, Stack, Text, TextInput } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState, type FormEvent, type ReactNode } from "react";
import { api, take, type Schemas } from "../api/client";
import { creditsOf, session, users } from "../api/queries";
import { counted, number } from "../format";
import { Badge, Code, Empty, Icon, Loaded, Moment, Note, Page, Panel, Trouble, Warning, type Column } from "../parts";
import { DataTable } from "../parts/DataTable";
import { OwnerLink } from "../parts/JobTable";
import { useFragment, type UserSort, type UsersSearch } from "../search";

type User = Schemas["User"];

/** Users makes accounts and changes what they may do. */
export function Users() {
  const { sort, cursor }: UsersSearch = useSearch({ strict: false });
  const navigate = useNavigate();
  const [fragment, find] = useFragment();
  const q = fragment.get("find") ?? "";
  const [text, setText] = useState(q);
  useEffect(() => setText(q), [q]);
  const query = useQuery({ ...users({ q: q || undefined, sort, cursor }), placeholderData: keepPreviousData });
  const show = (next: UsersSearch) => void navigate({ to: ".", search: () => next, hash: true, resetScroll: false });
  const [adding, setAdding] = useState(false);
  return (
    <Page
      title="Users"
      note="Accounts are created here or with the CLI. Public sign-up is off."
      actions={
        <Button leftSection={<Icon name="users" size={16} />} onClick={() => setAdding(true)}>
          Add a user
        </Button>
      }
    >
      <Add opened={adding} close={() => setAdding(false)} />
      <Panel
        title={query.data ? counted(query.data.total, "account") : "Accounts"}
        actions={
          <form
            onSubmit={(e) => {
              e.preventDefault();
              find(text.trim() ? { find: text.trim() } : {}, { sort });
            }}
          >
            <Group gap="xs">
              <TextInput aria-label="Find by e-mail address" placeholder="Find by e-mail address" value={text} size="xs" w="16rem" leftSection={<Icon name="search" size={16} />} onChange={(e) => setText(e.currentTarget.value)} />
              <Button type="submit" size="xs" variant="default">
                Find
              </Button>
            </Group>
          </form>
        }
      >
        <Loaded query={query} what="accounts">
          {({ users: list, next_cursor: next }) => (
            <DataTable
              label="Accounts"
              columns={columns}
              rows={list}
              keyOf={(u) => u.id}
              empty={<Empty icon="search" title={q ? `Nothing found for "${q}"` : "Nothing here"} />}
              pages={{ cursor, next, go: (cursor) => show({ sort, cursor }), words: ["First", "Next"], sort: sort ?? "email", sortBy: (sort) => show({ sort: sort as UserSort }) }}
            />
          )}
        </Loaded>
      </Panel>
    </Page>
  );
}

export function limitsText(l: User["limits"]): string {
  const parts = [];
  if (l.single_per_minute) parts.push(`${number(l.single_per_minute)} single/min`);
  if (l.bulk_per_hour) parts.push(`${number(l.bulk_per_hour)} lists/h`);
  return parts.join(", ") || "none";
}

/** Account marks one's own. */
function Account({ user: u }: { user: User }) {
  const me = useQuery(session).data?.user.id === u.id;
  return (
    <>
      <OwnerLink id={u.id} email={u.email} />
      {me && <Note>you</Note>}
    </>
  );
}

function Balance({ user: u }: { user: User }) {
  const balance = useQuery(creditsOf(u.id));
  return balance.data ? number(balance.data.balance) : "…";
}

const columns: Column<User>[] = [
  { title: "Account", kind: "name", sort: "email", of: (u) => <Account user={u} /> },
  { title: "Role", of: (u) => u.role },
  { title: "State", of: (u) => (u.disabled ? <Badge tone="bad">disabled</Badge> : <Badge tone="good">active</Badge>) },
  { title: "Authenticator app", of: (u) => (u.totp ? "on" : "off") },
  { title: "Balance", kind: "number", of: (u) => <Balance user={u} /> },
  { title: "Custom limits", of: (u) => limitsText(u.limits) },
  { title: "Since", sort: "-created_at", of: (u) => <Moment at={u.created_at} /> },
  { title: "Change", kind: "act", of: (u) => <Change user={u} /> },
];

/** Change is what an operator may do with an account. */
export function Change({ user: u }: { user: User }) {
  const client = useQueryClient();
  const me = useQuery(session).data?.user.id === u.id;
  const [open, setOpen] = useState<"credits" | "limits" | "reset" | "totp" | "disable" | null>(null);
  const refresh = () => {
    void client.invalidateQueries({ queryKey: ["users"] });
    for (const what of ["creditsof", "ledgerof"]) void client.invalidateQueries({ queryKey: [what, u.id] });
    void client.invalidateQueries({ queryKey: ["credits"] });
  };
  const enable = useMutation({ mutationFn: () => take(api.POST("/v1/admin/users/{user}/enable", { params: { path: { user: u.id } } })), onSettled: refresh });
  const dialog = (which: typeof open) => ({ user: u, opened: open === which, close: () => setOpen(null), done: refresh });
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <Button size="compact-sm" variant="default" aria-label={`Change ${u.email}`}>
            Change
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => setOpen("credits")}>Grant credits</Menu.Item>
          <Menu.Item onClick={() => setOpen("limits")}>Set limits</Menu.Item>
          <Menu.Item onClick={() => setOpen("reset")}>Make a reset link</Menu.Item>
          {u.totp && <Menu.Item onClick={() => setOpen("totp")}>Switch the authenticator app off</Menu.Item>}
          {u.disabled ? (
            <Menu.Item onClick={() => enable.mutate()}>Enable</Menu.Item>
          ) : (
            <Menu.Item onClick={() => setOpen("disable")} disabled={me}>
              Disable
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      <Grant {...dialog("credits")} />
      <Limits {...dialog("limits")} />
      <ResetLink {...dialog("reset")} />
      <AppOff {...dialog("totp")} />
      <Disable {...dialog("disable")} />
    </>
  );
}

interface DialogProps {
  user: User;
  opened: boolean;
  close: () => void;
  done: () => void;
}

/** Dialog is a small form that ends when its act has. */
function Dialog({ title, opened, close, act, verb, children, color, stays = false }: { title: string; opened: boolean; close: () => void; act: () => Promise<unknown>; verb: string; children: ReactNode; color?: string; stays?: boolean }) {
  const run = useMutation({ mutationFn: act, onSuccess: stays ? undefined : close });
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
              Cancel
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
      <NumberInput label="Credits" description="Use a negative number to remove credits" value={amount} onChange={setAmount} thousandSeparator="," allowDecimal={false} required data-autofocus />
      <TextInput label="Note" description="Shown in the ledger" value={note} maxLength={200} onChange={(e) => setNote(e.currentTarget.value)} />
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
        await take(api.PUT("/v1/admin/users/{user}/limits", { params: { path: { user: user.id } }, body: { single_per_minute: Number(single), batch_per_minute: user.limits.batch_per_minute, bulk_per_hour: Number(bulk) } }));
        done();
      }}
    >
      <NumberInput label="Single checks a minute" description="0 is the default, 30" min={0} max={1_000_000} value={single} onChange={setSingle} data-autofocus />
      <NumberInput label="Lists an hour" description="0 is the default, 10" min={0} max={1_000_000} value={bulk} onChange={setBulk} />
    </Dialog>
  );
}

function ResetLink({ user, opened, close }: DialogProps) {
  const make = useMutation({ mutationFn: () => take(api.POST("/v1/admin/users/{user}/reset", { params: { path: { user: user.id } } })) });
  function leave() {
    close();
    make.reset();
  }
  if (!make.data) {
    return (
      <Dialog title={`A new password for ${user.email}?`} opened={opened} close={close} verb="Make a link" act={() => make.mutateAsync()} stays>
        <Text size="sm">Makes a link that is good once and for an hour. Who opens it chooses a new password, and all sessions of the account end.</Text>
      </Dialog>
    );
  }
  return (
    <Modal opened={opened} onClose={leave} title="The reset link" centered size="lg" closeOnClickOutside={false} closeButtonProps={{ "aria-label": "Close" }}>
      <Stack ta="left">
        <Warning>This link is shown once. Give it to {user.email} over a channel that you trust.</Warning>
        <Code text={new URL(make.data.url, location.origin).href} label="The link" copy="Copy the link" whole />
        <Group justify="flex-end">
          <Button onClick={leave}>Done</Button>
        </Group>
      </Stack>
    </Modal>
  );
}

function AppOff({ user, opened, close, done }: DialogProps) {
  return (
    <Dialog
      title={`Let ${user.email} sign in without a code?`}
      opened={opened}
      close={close}
      verb="Switch off"
      color="red"
      act={async () => {
        await take(api.POST("/v1/admin/users/{user}/totp-off", { params: { path: { user: user.id } } }));
        done();
      }}
    >
      <Text size="sm">For an account that has lost its app and its recovery codes. Make sure who asks: its password alone is enough then. All its sessions end.</Text>
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
      <Text size="sm">API keys stop working and sessions end immediately. Running jobs finish. You can re-enable it later.</Text>
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
    onSuccess: () => void client.invalidateQueries({ queryKey: ["users"] }),
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
          <Warning>
            This password is shown once. Give it to {add.data.email}, who can change it under Account.
          </Warning>
          <Code text={add.data.password} label="The password" copy="Copy the password" />
          <Group justify="flex-end">
            <Button onClick={leave}>Done</Button>
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
            <NumberInput label="Starting credits" min={0} value={amount} onChange={setAmount} thousandSeparator="," allowDecimal={false} />
            {add.error && <Trouble error={add.error} />}
            <Group justify="flex-end">
              <Button variant="default" onClick={leave}>
                Cancel
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
