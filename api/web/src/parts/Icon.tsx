// Line icons on a grid of 24, drawn for this page.
const paths = {
  overview: "M4 13h6V4H4zM14 20h6V4h-6zM4 20h6v-3H4z",
  verify: "M4 7l8 6 8-6M4 7v10h16V7zM4 7h16",
  lists: "M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01",
  logs: "M4 5h16v14H4zM7.5 9l2.5 2.5L7.5 14M12.5 15H16",
  key: "M14.5 9.5a4.5 4.5 0 1 0-3.6 4.4L13 16h2v2h2v2h3v-3l-5.7-5.7a4.5 4.5 0 0 0 .2-1.8zM9 8.5h.01",
  callback: "M4 12a8 8 0 1 1 3 6.2M4 12l-1.5-2.5M4 12l3-1.2M12 8v4l3 2",
  usage: "M4 20V10M10 20V4M16 20v-7M22 20H2",
  account: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21c.6-4 4-6 8-6s7.4 2 8 6",
  docs: "M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h7",
  cluster: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01",
  providers: "M12 3l9 5-9 5-9-5zM3 13l9 5 9-5",
  users: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20c.4-3.7 3-5.5 6.5-5.5s6.1 1.8 6.5 5.5M16 4.5a3.5 3.5 0 0 1 0 6.3M18 14.8c2 .7 3.3 2.4 3.5 5.2",
  stop: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM6 6l12 12",
  probes: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM16 16l5 5M8 11h2l1-3 2 6 1-3h1",
  audit: "M8 4H5v17h14V4h-3M8 3h8v4H8zM9 13l2.2 2.2L15.5 11",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5L19 19M5 19l1.5-1.5M17.5 6.5L19 5",
  moon: "M20 14.5A8.5 8.5 0 1 1 9.5 4a7 7 0 0 0 10.5 10.5z",
  auto: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  copy: "M9 9h11v12H9zM5 15H4V3h11v2",
  check: "M5 12.5l5 5L20 7",
  cross: "M6 6l12 12M18 6L6 18",
  dash: "M6 12h12",
  warn: "M12 4L2.5 20h19zM12 10v4M12 17h.01",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  upload: "M12 16V5M7 9l5-5 5 5M4 20h16",
  pause: "M8 5v14M16 5v14",
  play: "M7 4l13 8-13 8z",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 14h10l1-14M10 11v6M14 11v6",
  out: "M14 4H5v16h9M10 12h11M17 8l4 4-4 4",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM16 16l5 5",
  more: "M5 12h.01M12 12h.01M19 12h.01",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth={1.8} strokeLinecap="round" strokeLinejoin="round" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  );
}
