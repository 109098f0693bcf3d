import { Alert, Anchor, Button, Group, Loader, Modal, Stack, Text, Title, type ButtonProps } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { Link } from "@tanstack/react-router";
import { Fragment, useEffect, useRef, useState, type ReactNode } from "react";
import { ApiError, words, worthAgain, type JobStatus, type Status } from "../api/client";
import { exactly, when } from "../format";
import { Icon, type IconName } from "./Icon";

export { Icon };
export { Facts, Rows, type Column } from "./Rows";

interface PageProps {
  title: string;
  tab?: string;
  note?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

/** Page is the frame of every page: its title in the browser's tab, unless that says more, and its heading under the keyboard's
 * focus when it opens. */
export function Page({ title, tab = title, note, actions, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${tab} · Probity`;
  }, [tab]);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  return (
    <Stack gap="lg">
      <Group justify="space-between" align="flex-start" gap="sm">
        <div style={{ flex: "1 1 20rem", minWidth: 0 }}>
          <Title order={1} ref={heading} tabIndex={-1}>
            {title}
          </Title>
          {note && (
            <Text c="dimmed" mt={4} maw="52rem" style={{ textWrap: "pretty", overflowWrap: "anywhere" }}>
              {note}
            </Text>
          )}
        </div>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  );
}

/** Panel is a part of a page; a tall one is as tall as what stands beside it. */
export function Panel({ title, actions, tall = false, children }: { title?: ReactNode; actions?: ReactNode; tall?: boolean; children: ReactNode }) {
  return (
    <section className={tall ? "panel tall" : "panel"}>
      {title && (
        <Group justify="space-between" mb="sm" gap="xs">
          <Title order={2}>{title}</Title>
          {actions}
        </Group>
      )}
      {children}
    </section>
  );
}

/** Busy says what is waited for, never only that something turns. */
export function Busy({ children }: { children: ReactNode }) {
  return (
    <Group gap="sm" py="md" role="status">
      <Loader size="sm" aria-hidden />
      <Text c="dimmed">{children}</Text>
    </Group>
  );
}

/** Trouble is an error in the server's words, and what to do. */
export function Trouble({ error, again }: { error: unknown; again?: () => void }) {
  const id = error instanceof ApiError ? error.requestId : "";
  return (
    <Alert className="trouble" role="alert" icon={<Icon name="warn" />}>
      <Stack gap="xs" align="flex-start">
        <Text size="sm">{words(error)}</Text>
        {id && (
          <Text size="xs" c="dimmed">
            Request <span className="mono">{id}</span>
          </Text>
        )}
        {again && <Again key={id} error={error} again={again} size="compact-sm" />}
      </Stack>
    </Alert>
  );
}

/** Again tries what failed once more, where that may help, and not before the server wants it. */
export function Again({ error, again, ...rest }: { error: unknown; again: () => void } & ButtonProps) {
  const after = error instanceof ApiError ? error.retryAfter : 0;
  const [waits, setWaits] = useState(after > 0);
  useEffect(() => {
    if (after === 0) return;
    const timer = setTimeout(() => setWaits(false), Math.min(after * 1000, longestTimer));
    return () => clearTimeout(timer);
  }, [after]);
  if (!worthAgain(error)) return null;
  return (
    <Button variant="default" disabled={waits} onClick={again} {...rest}>
      Try again
    </Button>
  );
}

const longestTimer = 2 ** 31 - 1; // milliseconds; a longer one ends at once

/** Warning is what should be known before it goes wrong, or is gone. */
export function Warning({ title, children }: { title?: ReactNode; children: ReactNode }) {
  return (
    <Alert className="warning" title={title} icon={<Icon name="warn" />}>
      {children}
    </Alert>
  );
}

/** Empty says why there is nothing, and what makes something. */
export function Empty({ icon, title, children }: { icon: IconName; title: string; children?: ReactNode }) {
  return (
    <Stack align="center" gap={4} py="xl" ta="center">
      <Text c="dimmed" component="span" mb={4}>
        <Icon name={icon} size={24} />
      </Text>
      <Text fw={500}>{title}</Text>
      {children && (
        <Text c="dimmed" size="sm" maw="30rem" component="div" style={{ textWrap: "balance" }}>
          {children}
        </Text>
      )}
    </Stack>
  );
}

interface Asked<T> {
  data: T | undefined;
  error: unknown;
  isPending: boolean;
  refetch: () => unknown;
}

/** Loaded shows what was asked for, or that it is asked for, or why there is none. */
export function Loaded<T>({ query, what, children }: { query: Asked<T>; what: string; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.isPending) return <Busy>Loading {what}…</Busy>;
  return <Trouble error={query.error} again={() => void query.refetch()} />;
}

const tones: Record<Status, string> = { VALID: "good", RISKY: "fair", INVALID: "bad", UNKNOWN: "none" };

export const toneOf = (s: Status) => tones[s];

export function StatusBadge({ status }: { status: Status }) {
  return <span className={`badge tone-${tones[status]}`}>{status}</span>;
}

const jobTones: Record<JobStatus, string> = {
  ready: "fair",
  queued: "busy",
  running: "busy",
  finalizing: "busy",
  paused: "fair",
  cancelling: "fair",
  completed: "good",
  cancelled: "none",
  failed: "bad",
  expired: "none",
};

/** JobBadge is the state of a job, and marks one of a test key. */
export function JobBadge({ job }: { job: { status: JobStatus; test?: boolean } }) {
  return (
    <>
      <span className={`badge tone-${jobTones[job.status]}`}>{job.status}</span>
      {job.test && (
        <>
          {" "}
          <Badge tone="none">test</Badge>
        </>
      )}
    </>
  );
}

export function Badge({ tone, children }: { tone: "good" | "fair" | "bad" | "none" | "busy"; children: ReactNode }) {
  return <span className={`badge tone-${tone}`}>{children}</span>;
}

export function Stats({ children }: { children: ReactNode }) {
  return <dl className="stats">{children}</dl>;
}

export function Stat({ name, note, children }: { name: string; note?: ReactNode; children: ReactNode }) {
  return (
    <div className="stat">
      <dt>{name}</dt>
      <dd>
        {children}
        {note && <small>{note}</small>}
      </dd>
    </div>
  );
}

/** Name is a host or an address, which breaks where a reader would break it. */
export function Name({ text }: { text: string }) {
  return text.split(/(?<=[.@/_])/).map((part, i) => (
    <Fragment key={i}>
      {i > 0 && <wbr />}
      {part}
    </Fragment>
  ));
}

/** Cut is a text that people chose, which may be long: on one line, whole when pointed at. */
export function Cut({ text }: { text: string }) {
  return (
    <span className="cut" title={text}>
      {text}
    </span>
  );
}

/** AsTable holds the table that says what the chart above it shows. */
export function AsTable({ children }: { children: ReactNode }) {
  return (
    <details>
      <Text component="summary" size="sm" c="dimmed" style={{ cursor: "pointer" }}>
        View as table
      </Text>
      {children}
    </details>
  );
}

/** Note is a second line, smaller than what it belongs to. */
export function Note({ children, bad = false }: { children: ReactNode; bad?: boolean }) {
  return (
    <Text size="xs" c={bad ? undefined : "dimmed"} className={bad ? "ink-bad" : undefined}>
      {children}
    </Text>
  );
}

/** More asks for the next part of a long list. */
export function More({ children, ...rest }: { children: ReactNode; loading?: boolean; onClick: () => void }) {
  return (
    <Button mt="sm" size="compact-sm" variant="default" {...rest}>
      {children}
    </Button>
  );
}

/** Moment is a time as people say it; the exact one is a hover, and in the markup. */
export function Moment({ at, none = "never" }: { at: string | null | undefined; none?: string }) {
  if (!at) return <>{none}</>;
  return (
    <time dateTime={at} title={exactly(at)}>
      {when(at)}
    </time>
  );
}

/** copyText copies also where the browser gives pages without TLS no clipboard. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.setAttribute("readonly", "");
    (document.querySelector("[role=dialog]") ?? document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

export function CopyButton({ text, label = "Copy", ...rest }: { text: string; label?: string } & ButtonProps) {
  const [done, setDone] = useState<boolean | null>(null);
  useEffect(() => {
    if (done === null) return;
    const timer = setTimeout(() => setDone(null), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <Button
      size="compact-sm"
      variant="default"
      leftSection={<Icon name={done ? "check" : "copy"} size={14} />}
      onClick={() => void copyText(text).then(setDone)}
      {...rest}
    >
      <span aria-live="polite">{done === null ? label : done ? "Copied" : "Select and copy it"}</span>
    </Button>
  );
}

/** Code is text to be taken over; what is short, and seen once, is shown whole. */
export function Code({ text, label, copy = "Copy", whole = false }: { text: string; label: string; copy?: string; whole?: boolean }) {
  return (
    <div className={whole ? "code whole" : "code"}>
      <pre tabIndex={0} role="group" aria-label={label}>
        {text}
      </pre>
      <CopyButton text={text} label={copy} className="copy" />
    </div>
  );
}

interface AskProps {
  label: string;
  title: string;
  children: ReactNode;
  act: () => Promise<unknown>;
  done?: () => void;
  verb?: string;
  color?: string;
  keep?: string;
  button?: ButtonProps & { "aria-label"?: string };
  icon?: IconName;
}

/** Ask is a button that does what cannot be undone, after asking. */
export function Ask({ label, title, children, act, done, verb = label, keep = "Keep it", color = "red", button, icon }: AskProps) {
  const [open, { open: show, close }] = useDisclosure(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  async function run() {
    setBusy(true);
    setError(null);
    try {
      await act();
      close();
      done?.();
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  }
  return (
    <>
      <Button variant="default" size="sm" leftSection={icon && <Icon name={icon} size={16} />} {...button} onClick={show}>
        {label}
      </Button>
      <Modal opened={open} onClose={close} title={title} centered closeButtonProps={{ "aria-label": "Close" }}>
        <Stack>
          <Text size="sm" component="div">
            {children}
          </Text>
          {error !== null && <Trouble error={error} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={close} data-autofocus>
              {keep}
            </Button>
            <Button color={color} loading={busy} onClick={() => void run()}>
              {verb}
            </Button>
          </Group>
        </Stack>
      </Modal>
    </>
  );
}

/** To is a link to another page of the dashboard. */
export function To({ to, children, params, search }: { to: string; children: ReactNode; params?: Record<string, string>; search?: object }) {
  return (
    <Anchor renderRoot={(props) => <Link to={to} params={params as never} search={search as never} {...props} />} inherit underline="always">
      {children}
    </Anchor>
  );
}
