import { createRootRoute, createRoute, createRouter } from "@tanstack/react-router";
import { Root } from "./Root";
import { later } from "./later";
import { pages } from "./routes";
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

const routeTree = root.addChildren([
  createRoute({ getParentRoute: () => root, path: "/", component: later(pages["/"]) }),
  createRoute({ getParentRoute: () => root, path: "/reset", component: () => null }), // Root shows it to all
  createRoute({ getParentRoute: () => root, path: "/verify", component: later(pages["/verify"]) }),
  createRoute({ getParentRoute: () => root, path: "/lists", validateSearch: jobsSearch, component: later(pages["/lists"]) }),
  createRoute({ getParentRoute: () => root, path: "/lists/$jobId", validateSearch: jobSearch, component: later(pages["/lists/$jobId"]) }),
  createRoute({ getParentRoute: () => root, path: "/logs", validateSearch: logsSearch, component: later(pages["/logs"]) }),
  createRoute({ getParentRoute: () => root, path: "/docs", component: later(pages["/docs"]) }),
  createRoute({ getParentRoute: () => root, path: "/settings/keys", component: later(pages["/settings/keys"]) }),
  createRoute({ getParentRoute: () => root, path: "/settings/callbacks", component: later(pages["/settings/callbacks"]) }),
  createRoute({ getParentRoute: () => root, path: "/settings/usage", component: later(pages["/settings/usage"]) }),
  createRoute({ getParentRoute: () => root, path: "/settings/accuracy", component: later(pages["/settings/accuracy"]) }),
  createRoute({ getParentRoute: () => root, path: "/settings/account", component: later(pages["/settings/account"]) }),
  createRoute({ getParentRoute: () => root, path: "/operator", component: later(pages["/operator"]) }),
  createRoute({ getParentRoute: () => root, path: "/operator/cluster", component: later(pages["/operator/cluster"]) }),
  createRoute({ getParentRoute: () => root, path: "/operator/providers", validateSearch: findSearch, component: later(pages["/operator/providers"]) }),
  createRoute({ getParentRoute: () => root, path: "/operator/probes", validateSearch: probesSearch, component: later(pages["/operator/probes"]) }),
  createRoute({ getParentRoute: () => root, path: "/operator/audit", component: later(pages["/operator/audit"]) }),
  createRoute({ getParentRoute: () => root, path: "/operator/users", validateSearch: usersSearch, component: later(pages["/operator/users"]) }),
  createRoute({ getParentRoute: () => root, path: "/operator/users/$userId", validateSearch: jobsSearch, component: later(pages["/operator/users/$userId"]) }),
  createRoute({ getParentRoute: () => root, path: "/operator/jobs", validateSearch: jobsSearch, component: later(pages["/operator/jobs"]) }),
  createRoute({ getParentRoute: () => root, path: "/operator/jobs/$jobId", component: later(pages["/operator/jobs/$jobId"]) }),
  createRoute({ getParentRoute: () => root, path: "/operator/suppressions", component: later(pages["/operator/suppressions"]) }),
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
