import "./mantine";
import "./styles.css";
import { MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { hasLeft, leftElsewhere, whenSignedOut, type Job, type Visit } from "./api/client";
import { adopt, client, job, owner, session } from "./api/queries";
import { whenBack } from "./api/reach";
import { whenTold } from "./api/tabs";
import { begin, jobId } from "./early";
import { forgetKept, forgetUser } from "./forget";
import { router } from "./router";
import { theme, variables } from "./theme";

// Style sheets that components make at run time are allowed by the nonce of this page, and by nothing else.
const nonce = document.querySelector<HTMLMetaElement>("meta[name=csp-nonce]")?.content ?? "";
(globalThis as { __webpack_nonce__?: string }).__webpack_nonce__ = nonce;

if (!location.pathname.startsWith("/app")) history.replaceState(null, "", "/app");

whenSignedOut(() => {
  client.setQueryData(session.queryKey, null);
  // A session that expired is continued by the same user: SignIn forgets the user where another one signs in.
  if (hasLeft()) forgetUser();
  else forgetKept(); // nothing outlives a reload meanwhile
});

whenTold(({ user }) => {
  if (user === null) return leftElsewhere();
  if (user !== owner()) forgetUser();
  client.removeQueries({ queryKey: session.queryKey, type: "inactive" }); // before the page is drawn, which then asks by itself
  void client.refetchQueries({ queryKey: session.queryKey });
});

whenBack(() => void client.invalidateQueries());

const patience = 500; // milliseconds

/** begun resolves when what the page begins with is there, and the router has the page. Who is not signed in needs no more than that. */
async function begun() {
  const visit = (await begin.session) as Visit | null | undefined;
  if (visit === undefined || begin.overtaken || client.getQueryData(session.queryKey) !== undefined) return; // the page asks by itself
  client.setQueryData(session.queryKey, visit && adopt(visit));
  if (!visit) return;
  const [found] = await Promise.all([begin.job, begin.page]);
  if (begin.overtaken) return;
  if (jobId && found) client.setQueryData(job(jobId).queryKey, (asked) => asked ?? (found as Job));
  await router.load();
}

// The first thing that is drawn is the page itself, unless that takes long. Pages import this file: it must not wait for them.
void Promise.race([begun().catch(() => {}), new Promise((done) => setTimeout(done, patience))]).then(() =>
  createRoot(document.getElementById("root")!).render(
    <StrictMode>
      <MantineProvider theme={theme} cssVariablesResolver={variables} defaultColorScheme="auto" getStyleNonce={() => nonce}>
        <QueryClientProvider client={client}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  ),
);
