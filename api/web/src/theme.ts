import { createTheme, type CSSVariablesResolver } from "@mantine/core";

export const theme = createTheme({
  primaryColor: "ink",
  primaryShade: { light: 7, dark: 7 },
  colors: {
    ink: ["#eef3ff", "#dbe4f8", "#b4c6ee", "#8ba6e5", "#7c9be4", "#527ad7", "#4571d5", "#3560bd", "#2b55aa", "#1d4997"],
  },
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
  fontFamilyMonospace: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
  headings: { fontWeight: "650", sizes: { h1: { fontSize: "1.6rem" }, h2: { fontSize: "1.15rem" }, h3: { fontSize: "1rem" } } },
  defaultRadius: "md",
  cursorType: "pointer",
  respectReducedMotion: true,
});

// The greys and the red of the library do not have the contrast that WCAG 2.2 AA asks of text.
export const variables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": "#565d68",
    "--mantine-color-placeholder": "#646b76",
    "--mantine-color-error": "#b42318",
    "--mantine-color-body": "#f7f8fa",
    "--mantine-color-anchor": "#2b55aa",
    "--panel": "#ffffff",
    "--edge": "#e1e4ea",
    "--valid": "#1b7f46",
    "--risky": "#946200",
    "--invalid": "#b42318",
    "--unknown": "#565d68",
    "--valid-soft": "#e4f4ea",
    "--risky-soft": "#fbf0d9",
    "--invalid-soft": "#fce8e6",
    "--unknown-soft": "#eceef2",
    "--info-soft": "#e6edfb",
    "--info": "#2b55aa",
  },
  dark: {
    "--mantine-color-dimmed": "#a9b0bd",
    "--mantine-color-placeholder": "#9aa1ad",
    "--mantine-color-error": "#ff8a80",
    "--mantine-color-body": "#14171c",
    "--mantine-color-anchor": "#9db8f2",
    "--panel": "#1b1f26",
    "--edge": "#2e343e",
    "--valid": "#5fd08e",
    "--risky": "#e6b450",
    "--invalid": "#ff8a80",
    "--unknown": "#a9b0bd",
    "--valid-soft": "#16321f",
    "--risky-soft": "#38290b",
    "--invalid-soft": "#3d1b18",
    "--unknown-soft": "#2a2f38",
    "--info-soft": "#1d2a45",
    "--info": "#9db8f2",
  },
});
