import { Button, Center, PasswordInput, Stack, Text, TextInput, Title } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState, type FormEvent } from "react";
import { ApiError, api, take, type Visit } from "../api/client";
import { adopt, session } from "../api/queries";
import { tell } from "../api/tabs";
import { forgetUser } from "../forget";
import { Trouble } from "../parts";
import { Logo } from "../parts/Shell";

/** SignIn stands in for every page while there is no session, so that a link leads where it should after it. */
export function SignIn({ was }: { was: Visit | null }) {
  const client = useQueryClient();
  const [email, setEmail] = useState(was?.user.email ?? "");
  const [password, setPassword] = useState("");
  const [asksCode, setAsksCode] = useState(false);
  const [code, setCode] = useState("");
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
      const visit = adopt(await take(api.POST("/v1/dash/login", { body: { email, password, ...(asksCode && { code }) } })));
      if (was && was.user.id !== visit.user.id) forgetUser();
      else void client.invalidateQueries({ predicate: (q) => q.queryKey[0] !== "session" });
      client.setQueryData(session.queryKey, visit);
      tell(visit.user.id);
    } catch (e) {
      setCode("");
      if (e instanceof ApiError && e.challenge === "TOTP") {
        setError(asksCode ? e : null); // to be asked for a code is no fault
        setAsksCode(true);
        return;
      }
      setAsksCode(false);
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
          {was && !error && !asksCode && (
            <Text size="sm" role="status">
              Your session expired. Sign in to continue.
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
          {asksCode && (
            <TextInput
              label="Code"
              description="From your authenticator app, or a recovery code"
              autoComplete="one-time-code"
              spellCheck={false}
              required
              autoFocus
              value={code}
              onChange={(e) => setCode(e.currentTarget.value)}
            />
          )}
          <Button type="submit" loading={busy}>
            Sign in
          </Button>
          <Text size="sm" c="dimmed">
            No account or forgot your password? Contact your administrator.
          </Text>
        </Stack>
      </form>
    </Center>
  );
}
