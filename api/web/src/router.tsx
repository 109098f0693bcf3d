import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { Root } from "./Root";
import { Busy, Empty, Page, Panel, To, Trouble } from "./parts";

const root = createRootRoute({
  component: Root,
  notFoundComponent: () => (
    <Page title="Nothing here">
      <Panel>
        <Empty icon="search" title="There is no such page">
          The address was mistyped, or what it led to is gone. Choose from the menu, or go to the <To to="/">overview</To>.
        </Empty>
      </Panel>
    </Page>
  ),
});

const overview = () => import("./pages/Overview");
const settings = () => import("./pages/Settings");

const routeTree = root.addChildren([
  createRoute({ getParentRoute: () => root, path: "/", component: lazyRouteComponent(overview, "Overview") }),
  createRoute({ getParentRoute: () => root, path: "/verify", component: lazyRouteComponent(() => import("./pages/Verify"), "Verify") }),
  createRoute({ getParentRoute: () => root, path: "/lists", component: lazyRouteComponent(() => import("./pages/Lists"), "Lists") }),
  createRoute({ getParentRoute: () => root, path: "/lists/$jobId", component: lazyRouteComponent(() => import("./pages/Job"), "JobPage") }),
  createRoute({ getParentRoute: () => root, path: "/docs", component: lazyRouteComponent(() => import("./pages/Docs"), "Docs") }),
  createRoute({ getParentRoute: () => root, path: "/settings/keys", component: lazyRouteComponent(settings, "Keys") }),
  createRoute({ getParentRoute: () => root, path: "/settings/callbacks", component: lazyRouteComponent(settings, "Callbacks") }),
  createRoute({ getParentRoute: () => root, path: "/settings/usage", component: lazyRouteComponent(() => import("./pages/Usage"), "UsagePage") }),
  createRoute({ getParentRoute: () => root, path: "/settings/account", component: lazyRouteComponent(() => import("./pages/Account"), "Account") }),
  createRoute({ getParentRoute: () => root, path: "/operator/cluster", component: lazyRouteComponent(() => import("./pages/Cluster"), "Cluster") }),
  createRoute({ getParentRoute: () => root, path: "/operator/providers", component: lazyRouteComponent(() => import("./pages/Providers"), "Providers") }),
  createRoute({ getParentRoute: () => root, path: "/operator/probes", component: lazyRouteComponent(() => import("./pages/Probes"), "Probes") }),
  createRoute({ getParentRoute: () => root, path: "/operator/audit", component: lazyRouteComponent(() => import("./pages/Audit"), "Audit") }),
  createRoute({ getParentRoute: () => root, path: "/operator/users", component: lazyRouteComponent(() => import("./pages/Users"), "Users") }),
  createRoute({ getParentRoute: () => root, path: "/operator/jobs", component: lazyRouteComponent(() => import("./pages/AllJobs"), "AllJobs") }),
  createRoute({ getParentRoute: () => root, path: "/operator/suppressions", component: lazyRouteComponent(() => import("./pages/Suppressions"), "Suppressions") }),
]);

export const router = createRouter({
  routeTree,
  basepath: "/app",
  defaultPreload: "intent",
  scrollRestoration: true,
  defaultPendingComponent: () => <Busy>Loading the page…</Busy>,
  defaultErrorComponent: ({ error }) => <Trouble error={error} again={() => location.reload()} />,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
