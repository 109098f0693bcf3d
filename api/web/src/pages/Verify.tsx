import { Button, Checkbox, Grid, Group, Select, Stack, Text, TextInput, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { api, take, type Result } from "../api/client";
import { reasons } from "../api/queries";
import { Code, Empty, Facts, Icon, Moment, Page, Panel, StatusBadge, toneOf, Trouble, Busy, Badge } from "../parts";
import { evidence } from "../parts/Evidence";
import { useFragment } from "../search";
import { keepVerified, readVerified } from "../verified";
import { checks, curl, meaning, notLookedUp, type Check } from "../verdict";

const ages = [
  { value: "604800", label: "Up to 7 days old" },
  { value: "86400", label: "Up to 1 day old" },
  { value: "0", label: "No, check again now" },
];

export function Verify() {
  const client = useQueryClient();
  const [fragment, show] = useFragment();
  const [last, setLast] = useState(readVerified);
  const [email, setEmail] = useState(fragment.get("email") ?? last?.result.email ?? "");
  const [smtp, setSmtp] = useState(true);
  const [age, setAge] = useState("604800");
  const ask = useMutation({
    mutationFn: (address: string) =>
      take(api.POST("/v1/verify/single", { body: { email: address, check_smtp: smtp, timeout: 20, max_age: Number(age), details: true, receipt: false } })),
    onSuccess: (result) => {
      const verified = { result, smtp, age };
      keepVerified(verified);
      setLast(verified);
      show({ email: result.email });
      void client.invalidateQueries({ queryKey: ["credits"] });
    },
  });
  const asked = fragment.get("email");
  const shown = ask.error || (asked && last?.result.email !== asked) ? null : last;

  function submit(event: FormEvent) {
    event.preventDefault();
    if (email.trim()) ask.mutate(email);
  }

  return (
    <Page title="Verify an address" note="Check one address and see the evidence. 1 credit per result; UNKNOWN is free.">
      <form className="panel" onSubmit={submit}>
        <Group className="asks" align="flex-end" gap="sm">
          <TextInput
            label="E-mail address"
            placeholder="ann@example.com"
            inputMode="email"
            autoComplete="off"
            spellCheck={false}
            value={email}
            onChange={(e) => setEmail(e.currentTarget.value)}
            style={{ flex: "1 1 18rem" }}
            required
          />
          <Select label="Use cached result" data={ages} value={age} onChange={(v) => setAge(v ?? "604800")} allowDeselect={false} w="15rem" />
          <Button type="submit" loading={ask.isPending} leftSection={<Icon name="verify" size={16} />}>
            Verify
          </Button>
        </Group>
        <Checkbox mt="sm" label="Ask the mail server (SMTP)" checked={smtp} onChange={(e) => setSmtp(e.currentTarget.checked)} />
      </form>
      {ask.isPending && (
        <div className="panel">
          <Busy>Checking… This can take up to 20 seconds.</Busy>
        </div>
      )}
      {ask.error && <Trouble error={ask.error} again={() => ask.mutate(email)} />}
      {shown && !ask.isPending && (
        <Answer
          {...shown}
          retry={(address) => {
            setEmail(address);
            ask.mutate(address);
          }}
        />
      )}
      {!shown && ask.isIdle && (
        <div className="panel">
          <Empty icon="verify" title="Enter an address above">
            You will get a verdict, every check, the mail servers and the SMTP reply behind it.
          </Empty>
        </div>
      )}
    </Page>
  );
}

function Checked({ check: c }: { check: Check }) {
  return (
    <Group gap={6} wrap="nowrap" className={`ink-${c.outcome}`}>
      <Icon name={marks[c.outcome]} size={16} />
      <span>{c.text}</span>
    </Group>
  );
}

const marks = { good: "check", bad: "cross", fair: "warn", none: "dash" } as const;

function Answer({ result: r, smtp, age, retry }: { result: Result; smtp: boolean; age: string; retry: (address: string) => void }) {
  const known = useQuery(reasons);
  const d = r.details;
  const why = r.reason ? known.data?.get(r.reason)?.meaning : undefined;
  return (
    <Grid gap="lg">
      <Grid.Col span={{ base: 12, md: 5 }}>
        <section className="panel tall" aria-label="Verdict" aria-live="polite">
          <Stack gap="xs">
            <Group justify="space-between">
              <StatusBadge status={r.status} />
              <Text size="sm" c="dimmed">
                Score <b>{r.score}</b> of 100
              </Text>
            </Group>
            <Title order={2} className={`ink-${toneOf(r.status)}`} fz="1.5rem">
              {meaning[r.status].title}
            </Title>
            <Text style={{ overflowWrap: "anywhere" }} fw={600}>
              {r.email}
            </Text>
            <Text>{why ?? meaning[r.status].text}</Text>
            {d?.did_you_mean && (
              <Group gap="xs">
                <Text>
                  Did you mean <b>{d.did_you_mean}</b>?
                </Text>
                <Button size="compact-sm" variant="light" onClick={() => retry(d.did_you_mean!)}>
                  Verify that
                </Button>
              </Group>
            )}
            <Text size="sm" c="dimmed">
              {r.from_cache ? "Cached" : "Checked"} <Moment at={r.verified_at} />; {r.credits_used === 0 ? "no credit used" : `${r.credits_used} credit used`}
              {r.reason && (
                <>
                  ; reason <span className="mono">{r.reason}</span>
                </>
              )}
            </Text>
          </Stack>
        </section>
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 7 }}>
        <Panel tall title="Checks">
          <Facts list={checks(r).map((c) => [c.name, <Checked key={c.name} check={c} />])} />
        </Panel>
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 5 }}>
        <Panel tall title="Mail servers" actions={r.smtp_provider && <Badge tone="busy">{r.smtp_provider}</Badge>}>
          {r.mx_records.length === 0 ? (
            <Text c="dimmed" size="sm">
              {notLookedUp(r) || "No mail servers (MX) found"}.
            </Text>
          ) : (
            <ol style={{ margin: 0, paddingLeft: "1.6rem" }}>
              {r.mx_records.map((m) => (
                <li key={m} className="mono">
                  {m}
                </li>
              ))}
            </ol>
          )}
        </Panel>
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 7 }}>
        <Panel tall title="Evidence">
          <Facts list={d ? evidence(d, r.email) : []} />
        </Panel>
      </Grid.Col>
      <Grid.Col span={12}>
        <Panel title="curl">
          <Code text={curl(location.origin, r.email, { check_smtp: smtp, max_age: age === "604800" ? undefined : Number(age) })} label="The call as a curl command" copy="Copy as curl" />
        </Panel>
      </Grid.Col>
      <Grid.Col span={12}>
        <Panel title="API response">
          <Code text={JSON.stringify(r, null, 2)} label="The answer as JSON" copy="Copy JSON" />
        </Panel>
      </Grid.Col>
    </Grid>
  );
}
