import { Anchor, Button, Group, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { api, take } from "../api/client";
import { sessions, totp } from "../api/queries";
import { Badge, Code, Loaded, Panel, Trouble, Warning } from "../parts";

const toggle = { "aria-label": "Show or hide the password" };

/** TwoSteps switches the code of an authenticator app on and off (TOTP). */
export function TwoSteps() {
  const query = useQuery(totp);
  const [recovery, setRecovery] = useState<string[]>([]);
  return (
    <Panel title="Authenticator app" actions={query.data && (query.data.on ? <Badge tone="good">on</Badge> : <Badge tone="none">off</Badge>)}>
      {recovery.length > 0 ? (
        <Stack maw="32rem">
          <Warning title="Keep these recovery codes">Each signs you in once where you have no app. They are not shown again.</Warning>
          <Code text={recovery.join("\n")} label="Recovery codes" copy="Copy the codes" />
          <Group>
            <Button onClick={() => setRecovery([])}>Done</Button>
          </Group>
        </Stack>
      ) : (
        <Loaded query={query} what="the authenticator app">
          {(now) => (now.on ? <Off left={now.recovery_codes_left} /> : <On done={setRecovery} />)}
        </Loaded>
      )}
    </Panel>
  );
}

function useRefresh() {
  const client = useQueryClient();
  return () => Promise.all([totp, sessions].map((q) => client.invalidateQueries({ queryKey: q.queryKey })));
}

/** On makes a secret, and waits for a code that shows that the app has it. */
function On({ done }: { done: (recovery: string[]) => void }) {
  const refresh = useRefresh();
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const make = useMutation({ mutationFn: () => take(api.POST("/v1/dash/totp", { body: { password } })), onSuccess: () => setPassword("") });
  const confirm = useMutation({
    mutationFn: () => take(api.POST("/v1/dash/totp/on", { body: { code } })),
    onSuccess: (answer) => {
      done(answer.recovery_codes);
      return refresh();
    },
  });
  function submit(e: FormEvent) {
    e.preventDefault();
    if (make.data) confirm.mutate();
    else make.mutate();
  }
  return (
    <form onSubmit={submit}>
      <Stack maw="32rem">
        {make.data ? (
          <>
            <Warning>Add this to your authenticator app now: it is not shown again.</Warning>
            <Code text={make.data.secret} label="The secret" copy="Copy the secret" whole />
            <Code text={make.data.url} label="The secret as a URL" copy="Copy the URL" whole />
            <Text size="sm">
              The app may be on this device: <Anchor href={make.data.url} inherit underline="always">open it there</Anchor>.
            </Text>
            <TextInput label="Code" description="The six digits that the app shows for Probity" autoComplete="one-time-code" spellCheck={false} required value={code} onChange={(e) => setCode(e.currentTarget.value)} />
          </>
        ) : (
          <>
            <Text size="sm">With it, signing in takes a code of an app on your phone as well as your password. API keys work as before.</Text>
            <PasswordInput label="Your password" autoComplete="current-password" required value={password} onChange={(e) => setPassword(e.currentTarget.value)} visibilityToggleButtonProps={toggle} />
          </>
        )}
        {(confirm.error ?? make.error) && <Trouble error={confirm.error ?? make.error} />}
        <Group>
          <Button type="submit" loading={make.isPending || confirm.isPending}>
            {make.data ? "Switch on" : "Set up an app"}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function Off({ left }: { left: number }) {
  const refresh = useRefresh();
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const off = useMutation({
    mutationFn: () => take(api.POST("/v1/dash/totp/off", { body: { password, code } })),
    onSuccess: refresh,
  });
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault();
        off.mutate();
      }}
    >
      <Stack maw="32rem">
        <Text size="sm">
          Signing in takes a code. {left === 1 ? "1 recovery code is" : `${left} recovery codes are`} left; for new ones, switch it off and on again. All other sessions end.
        </Text>
        <PasswordInput label="Your password" autoComplete="current-password" required value={password} onChange={(e) => setPassword(e.currentTarget.value)} visibilityToggleButtonProps={toggle} />
        <TextInput label="Code" description="From your app, or a recovery code" autoComplete="one-time-code" spellCheck={false} required value={code} onChange={(e) => setCode(e.currentTarget.value)} />
        {off.error && <Trouble error={off.error} />}
        <Group>
          <Button type="submit" color="red" loading={off.isPending}>
            Switch off
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
