import { Button, Center, PasswordInput, Stack, Text, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useState, type FormEvent } from "react";
import { api, take } from "../api/client";
import { Trouble } from "../parts";
import { Logo } from "../parts/Shell";

/** Reset is where a reset link leads. Its token stands behind the #, and leaves the address bar at once. */
export function Reset() {
  const [token] = useState(() => location.hash.slice(1));
  const [password, setPassword] = useState("");
  const reset = useMutation({ mutationFn: () => take(api.POST("/v1/dash/reset", { body: { token, password } })) });
  useEffect(() => {
    document.title = "New password · Probity";
    history.replaceState(history.state, "", location.pathname);
  }, []);
  function submit(e: FormEvent) {
    e.preventDefault();
    reset.mutate();
  }
  return (
    <Center mih="100dvh" p="md" component="main">
      <form className="panel" style={{ width: "min(24rem, 100%)" }} onSubmit={submit}>
        <Stack>
          <Logo />
          <Title order={1} fz="h2">
            Choose a new password
          </Title>
          {reset.isSuccess ? (
            <>
              <Text role="status">Your password has changed, and all sessions have ended.</Text>
              <Button component="a" href="/app/">
                Sign in
              </Button>
            </>
          ) : (
            <>
              {reset.error && <Trouble error={reset.error} />}
              <PasswordInput
                label="New password"
                description="10 to 256 characters"
                autoComplete="new-password"
                required
                minLength={10}
                maxLength={256}
                value={password}
                onChange={(e) => setPassword(e.currentTarget.value)}
                visibilityToggleButtonProps={{ "aria-label": "Show or hide the password" }}
              />
              <Button type="submit" loading={reset.isPending}>
                Set the password
              </Button>
            </>
          )}
        </Stack>
      </form>
    </Center>
  );
}
