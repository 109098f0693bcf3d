import { Button, Center, PasswordInput, Stack, Text, TextInput, Title } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState, type FormEvent } from "react";
import { api, take } from "../api/client";
import { adopt, session } from "../api/queries";
import { Trouble } from "../parts";
import { Logo } from "../parts/Shell";

/** SignIn stands in for every page while nobody is signed in, so that a link leads where it should after it. */
export function SignIn({ ended }: { ended: boolean }) {
  const client = useQueryClient();
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = "Sign in · Probity";
  }, []);

  async function submit(event: FormEvent) {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const visit = adopt(await take(api.POST("/v1/dash/login", { body: { email, password } })));
      client.setQueryData(session.queryKey, visit);
    } catch (e) {
      setError(e);
      setPassword("");
      box.current?.focus();
    } finally {
      setBusy(false);
    }
  }

  return (
    <Center mih="100dvh" p="md" component="main">
      <form className="panel" style={{ width: "min(24rem, 100%)" }} onSubmit={(e) => void submit(e)}>
        <Stack>
          <Logo />
          <Title order={1} fz="h2">
            Sign in
          </Title>
          {ended && !error && (
            <Text size="sm" role="status">
              Your session has ended. Sign in to go on where you were.
            </Text>
          )}
          {error !== null && <Trouble error={error} />}
          <TextInput label="E-mail address" type="email" autoComplete="username" required autoFocus value={email} onChange={(e) => setEmail(e.currentTarget.value)} />
          <PasswordInput
            ref={box}
            label="Password"
            autoComplete="current-password"
            required
            value={password}
            onChange={(e) => setPassword(e.currentTarget.value)}
            visibilityToggleButtonProps={{ "aria-label": "Show or hide the password" }}
          />
          <Button type="submit" loading={busy}>
            Sign in
          </Button>
          <Text size="sm" c="dimmed">
            No account, or a lost password? Ask whoever runs this service.
          </Text>
        </Stack>
      </form>
    </Center>
  );
}
