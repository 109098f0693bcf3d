import { Center } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Outlet, useRouterState } from "@tanstack/react-router";
import { Activity, useRef } from "react";
import { hasLeft, type Visit } from "./api/client";
import { session } from "./api/queries";
import { Busy, Empty, Page, Trouble } from "./parts";
import { Shell } from "./parts/Shell";
import { Reset } from "./pages/Reset";
import { SignIn } from "./pages/SignIn";

/** Root asks who is there before anything else. */
export function Root() {
  const query = useQuery(session);
  const was = useRef<Visit | null>(null); // the session before, which expired
  const path = useRouterState({ select: (s) => s.location.pathname });
  if (query.data) was.current = query.data;
  else if (hasLeft()) was.current = null;
  if (path === "/reset") return <Reset />;
  if (query.isPending) {
    return (
      <Center mih="100dvh">
        <Busy>Loading the dashboard…</Busy>
      </Center>
    );
  }
  if (query.error && !query.data) {
    return (
      <Center mih="100dvh" p="md">
        <Trouble error={query.error} again={() => void query.refetch()} />
      </Center>
    );
  }
  const visit = query.data ?? was.current;
  const mayOpen = !path.startsWith("/operator") || visit?.user.role === "admin";
  // The page of a session that expired stays, hidden and at rest, with what was typed on it.
  return (
    <>
      {!query.data && <SignIn was={was.current} />}
      {visit && (
        <Activity key={visit.user.id} mode={query.data ? "visible" : "hidden"}>
          <Shell visit={visit} page={mayOpen ? <Outlet /> : <NotYours />} />
        </Activity>
      )}
    </>
  );
}

function NotYours() {
  return (
    <Page title="No access">
      <Empty icon="stop" title="Admins only">
        Contact your administrator.
      </Empty>
    </Page>
  );
}
