// The page /docs: the reference of the API, drawn from /openapi.json. It asks for nothing but our own files.
import { createApiReference } from "@scalar/api-reference";
import "@scalar/api-reference/style.css";
import "./docs.css";

createApiReference("#reference", {
  url: "/openapi.json",
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: "never",
  hideClientButton: true,
  hideTestRequestButton: true,
});
