import { share } from "../format";
import { statuses } from "../verdict";

const radius = 73;
const around = 2 * Math.PI * radius;
const gap = 2; // between two parts

/** Donut shows how a list divides. The legend beside it says the same in numbers. */
export function Donut({ counts }: { counts: Record<(typeof statuses)[number], number> }) {
  const total = statuses.reduce((n, s) => n + counts[s], 0);
  const parts = statuses.filter((s) => counts[s] > 0);
  let before = 0;
  const arcs = parts.map((s) => {
    const length = (counts[s] / total) * around;
    const arc = { status: s, start: before, length: parts.length > 1 ? Math.max(0.5, length - gap) : length };
    before += length;
    return arc;
  });
  return (
    <div style={{ width: 180, height: 180, position: "relative" }} role="img" aria-label={parts.map((s) => `${s} ${share(counts[s], total)}`).join(", ")}>
      <svg width="180" height="180" viewBox="0 0 180 180" aria-hidden>
        {arcs.map((a) => (
          <circle
            key={a.status}
            className={`arc-${a.status}`}
            cx="90"
            cy="90"
            r={radius}
            fill="none"
            strokeWidth="26"
            strokeDasharray={`${a.length} ${around - a.length}`}
            strokeDashoffset={-a.start}
            transform="rotate(-90 90 90)"
          />
        ))}
      </svg>
      <div style={{ position: "absolute", inset: 0, display: "grid", placeContent: "center", textAlign: "center" }} aria-hidden>
        <b style={{ fontSize: "1.4rem", lineHeight: 1.1 }}>{share(counts.VALID, total)}</b>
        <span style={{ fontSize: ".8125rem", color: "var(--mantine-color-dimmed)" }}>valid</span>
      </div>
    </div>
  );
}
