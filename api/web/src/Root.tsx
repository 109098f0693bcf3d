import { Center } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Outlet, useRouterState } from "@tanstack/react-router";
import { useRef } from "react";
import { hasLeft } from "./api/client";
import { session } from "./api/queries";
import { Busy, Empty, Page, Trouble } from "./parts";
import { Shell } from "./parts/Shell";
import { SignIn } from "./pages/SignIn";

/** Root asks who is there before anything else. */
export function Root() {
  const query = useQuery(session);
  const was = useRef(false);
  const path = useRouterState({ select: (s) => s.location.pathname });
  if (query.data) was.current = true;
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
  if (!query.data) return <SignIn ended={was.current && !hasLeft()} />;
  if (path.startsWith("/operator") && query.data.user.role !== "admin") {
    return <Shell visit={query.data} page={<NotYours />} />;
  }
  return <Shell visit={query.data} page={<Outlet />} />;
}

function NotYours() {
  return (
    <Page title="For operators">
      <Empty icon="stop" title="Only an admin may open this page">
        Ask whoever runs this service.
      </Empty>
    </Page>
  );
}
