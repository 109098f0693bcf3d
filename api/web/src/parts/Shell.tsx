import { ActionIcon, AppShell, Burger, Button, Group, NavLink, Text, useMantineColorScheme } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useRouterState } from "@tanstack/react-router";
import { useEffect, useRef, type ReactNode } from "react";
import { api, leave, take, type Visit } from "../api/client";
import { follow, useLiveness } from "../api/events";
import { credits } from "../api/queries";
import { useAnnounced } from "../api/news";
import { useReached } from "../api/reach";
import { preloadPages } from "../later";
import { number } from "../format";
import sign from "../icon.svg";
import { UploadPanel } from "../upload/UploadPanel";
import { Icon, type IconName } from "./Icon";
import { Warning } from "./index";

interface Place {
  to: string;
  label: string;
  icon: IconName;
}

const customer: Place[] = [
  { to: "/", label: "Overview", icon: "overview" },
  { to: "/verify", label: "Verify an address", icon: "verify" },
  { to: "/lists", label: "Jobs", icon: "lists" },
  { to: "/logs", label: "Logs", icon: "logs" },
];
const settings: Place[] = [
  { to: "/settings/keys", label: "API keys", icon: "key" },
  { to: "/settings/callbacks", label: "Callbacks", icon: "callback" },
  { to: "/settings/usage", label: "Usage and credits", icon: "usage" },
  { to: "/settings/accuracy", label: "Accuracy", icon: "check" },
  { to: "/settings/account", label: "Account", icon: "account" },
];
const help: Place[] = [{ to: "/docs", label: "Docs", icon: "docs" }];
const operator: Place[] = [
  { to: "/operator", label: "Operations", icon: "overview" },
  { to: "/operator/cluster", label: "Cluster", icon: "cluster" },
  { to: "/operator/providers", label: "Providers", icon: "providers" },
  { to: "/operator/users", label: "Users", icon: "users" },
  { to: "/operator/jobs", label: "All jobs", icon: "lists" },
  { to: "/operator/suppressions", label: "Suppressions", icon: "stop" },
  { to: "/operator/probes", label: "Probes", icon: "probes" },
  { to: "/operator/audit", label: "Audit", icon: "audit" },
];

/** Logo is the sign and the name. */
export function Logo() {
  return (
    <Group gap="xs" wrap="nowrap" component="span">
      <img src={sign} width="24" height="24" alt="" />
      <Text fw={600} size="lg" component="span">
        Probity
      </Text>
    </Group>
  );
}

/** Shell is what stands around every page of somebody who is signed in. */
export function Shell({ visit, page }: { visit: Visit; page: ReactNode }) {
  const [opened, { toggle, close }] = useDisclosure(false);
  const client = useQueryClient();
  useEffect(() => follow(client, visit.session_id), [client, visit.session_id]);
  useEffect(preloadPages, []);
  return (
    <AppShell header={{ height: 48 }} navbar={{ width: 220, breakpoint: "sm", collapsed: { mobile: !opened } }} padding={{ base: "sm", sm: "lg" }}>
      <a className="skip" href="#content">
        Skip to the page
      </a>
      <AppShell.Header px="md">
        <Group h="100%" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={opened} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={opened ? "Close the menu" : "Open the menu"} aria-expanded={opened} />
            <Link to="/" style={{ color: "inherit", textDecoration: "none" }} aria-label="Probity, overview">
              <Logo />
            </Link>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <Balance />
            <Theme />
            <Me visit={visit} />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar>
        <nav className="places" aria-label="Pages">
          <Places list={customer} go={close} />
          <Part title="Settings" />
          <Places list={settings} go={close} />
          <Part title="Help" />
          <Places list={help} go={close} />
          {visit.user.role === "admin" && (
            <>
              <Part title="Operator" />
              <Places list={operator} go={close} />
            </>
          )}
        </nav>
      </AppShell.Navbar>
      <AppShell.Main id="content">
        <div style={{ maxWidth: "86rem", margin: "0 auto" }}>
          <Offline />
          <Announced />
          {page}
        </div>
        <UploadPanel />
      </AppShell.Main>
    </AppShell>
  );
}

/** Offline says that what a page shows stands still. */
function Offline() {
  if (useReached()) return null;
  return (
    <div style={{ marginBottom: "var(--mantine-spacing-lg)" }} role="alert">
      <Warning title="No connection to the server">What you see may be out of date. Trying again every few seconds…</Warning>
    </div>
  );
}

/** Announced says aloud what happened meanwhile, such as the end of a job. */
function Announced() {
  return (
    <div className="unseen" role="status" aria-label="News">
      {useAnnounced()}
    </div>
  );
}

function Part({ title }: { title: ReactNode }) {
  return (
    <Text size="xs" c="dimmed" fw={500} px="xs" pt="md" pb={4}>
      {title}
    </Text>
  );
}

function Places({ list, go }: { list: Place[]; go: () => void }) {
  const path = useRouterState({ select: (s) => s.location.pathname });
  return list.map((p) => {
    const home = p.to === "/" || p.to === "/operator"; // it is above other pages in the path
    const active = path === p.to || (!home && path.startsWith(p.to + "/"));
    return (
      <NavLink
        key={p.to}
        label={p.label}
        leftSection={<Icon name={p.icon} size={16} />}
        active={active}
        variant="subtle"
        onClick={go}
        renderRoot={(props) => <Link to={p.to} {...props} activeOptions={{ exact: home }} aria-current={active ? "page" : undefined} />}
      />
    );
  });
}

function Balance() {
  const { data } = useQuery(credits);
  const live = useLiveness();
  if (!data) return null;
  return (
    <Link to="/settings/usage" style={{ textDecoration: "none" }} title={live === "live" ? "Live" : "Refreshed every few seconds"}>
      <span className={`badge tone-${data.balance === 0 ? "bad" : "busy"}`}>
        {number(data.balance)}
        <span className="hide-narrow">credits</span>
        <span className="hide-narrow" aria-hidden>
          {live === "live" ? "· live" : ""}
        </span>
      </span>
    </Link>
  );
}

function Theme() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const next = { auto: "light", light: "dark", dark: "auto" } as const;
  const icon = { auto: "auto", light: "sun", dark: "moon" } as const;
  const name = { auto: "system", light: "light", dark: "dark" };
  return (
    <ActionIcon
      variant="subtle"
      color="gray"
      size="lg"
      onClick={() => setColorScheme(next[colorScheme])}
      aria-label={`Colours: ${name[colorScheme]}. Change to ${name[next[colorScheme]]}`}
      title={`Colours: ${name[colorScheme]}`}
    >
      <Icon name={icon[colorScheme]} />
    </ActionIcon>
  );
}

/** Me is the account's menu: a popover of the browser's own, as the first page needs no more. Browsers without popovers show its last
 * button alone. */
function Me({ visit }: { visit: Visit }) {
  const menu = useRef<HTMLDivElement>(null);
  const close = () => menu.current?.hidePopover?.();
  function signOut() {
    void leave(() => take(api.POST("/v1/dash/logout")));
    close();
  }
  return (
    <>
      <Button variant="subtle" color="gray" size="sm" px={8} aria-label={`Account ${visit.user.email}`} popoverTarget="me">
        <Icon name="account" />
        <Text component="span" size="sm" ml={6} maw="14rem" truncate className="hide-narrow">
          {visit.user.email}
        </Text>
      </Button>
      <div id="me" className="me" ref={menu} popover="auto">
        <Text size="xs" c="dimmed" p="xs" truncate>
          {visit.user.email}
        </Text>
        <NavLink label="Account" leftSection={<Icon name="account" size={16} />} variant="subtle" onClick={close} renderRoot={(props) => <Link to="/settings/account" {...props} />} />
        <NavLink label="Sign out" leftSection={<Icon name="out" size={16} />} variant="subtle" component="button" onClick={signOut} />
      </div>
    </>
  );
}
