import { Button, Grid, Group, PasswordInput, Stack, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { api, take } from "../api/client";
import { session, sessions } from "../api/queries";
import { number } from "../format";
import { Ask, Badge, Loaded, Moment, Page, Panel, Rows, Stat, Stats, Trouble } from "../parts";
import { TwoSteps } from "./TwoSteps";

/** Account is the password and the browsers that are signed in. */
export function Account() {
  const visit = useQuery(session).data;
  return (
    <Page title="Account" note={visit && `${visit.user.email}, ${visit.user.role}`}>
      {visit && (
        <Stats>
          <Stat name="Single checks a minute">{number(visit.effective_limits.single_per_minute)}</Stat>
          <Stat name="Lists an hour">{number(visit.effective_limits.bulk_per_hour)}</Stat>
          <Stat name="Account since">
            <Moment at={visit.user.created_at} />
          </Stat>
        </Stats>
      )}
      <Grid gap="lg">
        <Grid.Col span={{ base: 12, md: 5 }}>
          <Password email={visit?.user.email ?? ""} />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Sessions />
        </Grid.Col>
      </Grid>
      <TwoSteps />
    </Page>
  );
}

function Password({ email }: { email: string }) {
  const client = useQueryClient();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [repeat, setRepeat] = useState("");
  const change = useMutation({
    mutationFn: () => take(api.PUT("/v1/dash/password", { body: { current, password: next } })),
    onSuccess: () => {
      setCurrent("");
      setNext("");
      setRepeat("");
      void client.invalidateQueries({ queryKey: sessions.queryKey });
    },
  });
  const differ = repeat !== "" && repeat !== next;
  const toggle = { "aria-label": "Show or hide the password" };
  function submit(e: FormEvent) {
    e.preventDefault();
    if (!differ) change.mutate();
  }
  return (
    <Panel tall title="Password">
      <form onSubmit={submit}>
        <Stack maw="24rem">
          <input type="hidden" name="username" autoComplete="username" value={email} readOnly />
          <PasswordInput label="Current password" autoComplete="current-password" required value={current} onChange={(e) => setCurrent(e.currentTarget.value)} visibilityToggleButtonProps={toggle} />
          <PasswordInput label="New password" description="At least 10 characters; all other sessions end" autoComplete="new-password" required minLength={10} value={next} onChange={(e) => setNext(e.currentTarget.value)} visibilityToggleButtonProps={toggle} />
          <PasswordInput label="Confirm new password" autoComplete="new-password" required value={repeat} error={differ ? "Passwords do not match" : undefined} onChange={(e) => setRepeat(e.currentTarget.value)} visibilityToggleButtonProps={toggle} />
          {change.error && <Trouble error={change.error} />}
          {change.isSuccess && (
            <Text size="sm" className="ink-good" role="status">
              The password has changed. All other sessions have ended.
            </Text>
          )}
          <Group>
            <Button type="submit" loading={change.isPending} disabled={differ}>
              Change the password
            </Button>
          </Group>
        </Stack>
      </form>
    </Panel>
  );
}

/** browserName is what a user agent is, in a few words. */
export function browserName(agent: string): string {
  const browser = [
    ["Edg/", "Edge"],
    ["OPR/", "Opera"],
    ["Firefox/", "Firefox"],
    ["Chrome/", "Chrome"],
    ["Safari/", "Safari"],
    ["curl/", "curl"],
  ].find(([mark]) => agent.includes(mark!))?.[1];
  const system = [
    ["Windows", "Windows"],
    ["Android", "Android"],
    ["iPhone", "iPhone"],
    ["iPad", "iPad"],
    ["Mac OS", "macOS"],
    ["Linux", "Linux"],
  ].find(([mark]) => agent.includes(mark!))?.[1];
  if (!browser) return agent || "Unknown";
  return system ? `${browser} on ${system}` : browser;
}

function Sessions() {
  const client = useQueryClient();
  const query = useQuery(sessions);
  const refresh = () => void client.invalidateQueries({ queryKey: sessions.queryKey });
  const end = useMutation({ mutationFn: (id: string) => take(api.DELETE("/v1/dash/sessions/{session_id}", { params: { path: { session_id: id } } })), onSettled: refresh });
  return (
    <Panel
      tall
      title="Sessions"
      actions={
        (query.data?.length ?? 0) > 1 && (
          <Ask label="Sign out other sessions" title="Sign out all other sessions?" keep="Keep them" button={{ size: "compact-sm" }} act={() => take(api.DELETE("/v1/dash/sessions"))} done={refresh}>
            Every other browser that is signed in to this account has to sign in again.
          </Ask>
        )
      }
    >
      {end.error && <Trouble error={end.error} />}
      <Loaded query={query} what="your sessions">
        {(list) => (
          <Rows
            label="Sessions"
            rows={list}
            keyOf={(s) => s.id}
            columns={[
              { title: "Browser", kind: "name", of: (s) => <span title={s.agent}>{browserName(s.agent)}</span> },
              { title: "Signed in", of: (s) => <Moment at={s.created_at} /> },
              { title: "Ends", of: (s) => <Moment at={s.expires_at} /> },
              { title: "End", kind: "act", of: (s) => (s.current ? <Badge tone="busy">this one</Badge> : <End agent={s.agent} act={() => end.mutate(s.id)} />) },
            ]}
          />
        )}
      </Loaded>
    </Panel>
  );
}

function End({ agent, act }: { agent: string; act: () => void }) {
  return (
    <Button size="compact-sm" variant="default" onClick={act} aria-label={`End the session of ${browserName(agent)}`}>
      End
    </Button>
  );
}
