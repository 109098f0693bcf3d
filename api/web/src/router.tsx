import { createRootRoute, createRoute, createRouter } from "@tanstack/react-router";
import { Root } from "./Root";
import { later } from "./later";
import { findSearch, jobSearch, jobsSearch, logsSearch, probesSearch, usersSearch } from "./search";
import { Busy, Empty, Page, Panel, To, Trouble } from "./parts";

const root = createRootRoute({
  component: Root,
  notFoundComponent: () => (
    <Page title="Page not found">
      <Panel>
        <Empty icon="search" title="This page does not exist or was deleted">
          Choose from the menu, or go to the <To to="/">overview</To>.
        </Empty>
      </Panel>
    </Page>
  ),
});

const overview = () => import("./pages/Overview");
const settings = () => import("./pages/Settings");

const routeTree = root.addChildren([
  createRoute({ getParentRoute: () => root, path: "/", component: later(overview, "Overview") }),
  createRoute({ getParentRoute: () => root, path: "/reset", component: () => null }), // Root shows it to all
  createRoute({ getParentRoute: () => root, path: "/verify", component: later(() => import("./pages/Verify"), "Verify") }),
  createRoute({ getParentRoute: () => root, path: "/lists", validateSearch: jobsSearch, component: later(() => import("./pages/Lists"), "Lists") }),
  createRoute({ getParentRoute: () => root, path: "/lists/$jobId", validateSearch: jobSearch, component: later(() => import("./pages/Job"), "JobPage") }),
  createRoute({ getParentRoute: () => root, path: "/logs", validateSearch: logsSearch, component: later(() => import("./pages/Logs"), "Logs") }),
  createRoute({ getParentRoute: () => root, path: "/docs", component: later(() => import("./pages/Docs"), "Docs") }),
  createRoute({ getParentRoute: () => root, path: "/settings/keys", component: later(settings, "Keys") }),
  createRoute({ getParentRoute: () => root, path: "/settings/callbacks", component: later(settings, "Callbacks") }),
  createRoute({ getParentRoute: () => root, path: "/settings/usage", component: later(() => import("./pages/Usage"), "UsagePage") }),
  createRoute({ getParentRoute: () => root, path: "/settings/accuracy", component: later(() => import("./pages/Accuracy"), "Accuracy") }),
  createRoute({ getParentRoute: () => root, path: "/settings/account", component: later(() => import("./pages/Account"), "Account") }),
  createRoute({ getParentRoute: () => root, path: "/operator", component: later(() => import("./pages/Operations"), "Operations") }),
  createRoute({ getParentRoute: () => root, path: "/operator/cluster", component: later(() => import("./pages/Cluster"), "Cluster") }),
  createRoute({ getParentRoute: () => root, path: "/operator/providers", validateSearch: findSearch, component: later(() => import("./pages/Providers"), "Providers") }),
  createRoute({ getParentRoute: () => root, path: "/operator/probes", validateSearch: probesSearch, component: later(() => import("./pages/Probes"), "Probes") }),
  createRoute({ getParentRoute: () => root, path: "/operator/audit", component: later(() => import("./pages/Audit"), "Audit") }),
  createRoute({ getParentRoute: () => root, path: "/operator/users", validateSearch: usersSearch, component: later(() => import("./pages/Users"), "Users") }),
  createRoute({ getParentRoute: () => root, path: "/operator/users/$userId", validateSearch: jobsSearch, component: later(() => import("./pages/User"), "UserPage") }),
  createRoute({ getParentRoute: () => root, path: "/operator/jobs", validateSearch: jobsSearch, component: later(() => import("./pages/AllJobs"), "AllJobs") }),
  createRoute({ getParentRoute: () => root, path: "/operator/jobs/$jobId", component: later(() => import("./pages/AnyJob"), "AnyJob") }),
  createRoute({ getParentRoute: () => root, path: "/operator/suppressions", component: later(() => import("./pages/Suppressions"), "Suppressions") }),
]);

export const router = createRouter({
  routeTree,
  basepath: "/app",
  defaultPreload: "intent",
  scrollRestoration: true,
  defaultPendingComponent: () => <Busy>Loading the page…</Busy>,
  defaultErrorComponent: ({ error, reset }) => <Trouble error={error} again={reset} />,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
