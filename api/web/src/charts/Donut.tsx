import { Cell, Pie, PieChart, ResponsiveContainer } from "recharts";
import { share } from "../format";
import { statuses } from "../verdict";

const colors = { VALID: "var(--fill-valid)", RISKY: "var(--fill-risky)", INVALID: "var(--fill-invalid)", UNKNOWN: "var(--fill-unknown)" };

/** Donut shows how a list divides. The legend beside it says the same in numbers. */
export default function Donut({ counts }: { counts: Record<(typeof statuses)[number], number> }) {
  const total = statuses.reduce((n, s) => n + counts[s], 0);
  const data = statuses.filter((s) => counts[s] > 0).map((s) => ({ name: s, value: counts[s] }));
  return (
    <div style={{ width: 180, height: 180, position: "relative" }} role="img" aria-label={data.map((d) => `${d.name} ${share(d.value, total)}`).join(", ")}>
      <ResponsiveContainer width="100%" height="100%">
        <PieChart accessibilityLayer={false}>
          <Pie data={data} dataKey="value" innerRadius={60} outerRadius={86} startAngle={90} endAngle={-270} stroke="var(--panel)" strokeWidth={2} isAnimationActive={false} rootTabIndex={-1}>
            {data.map((d) => (
              <Cell key={d.name} fill={colors[d.name]} />
            ))}
          </Pie>
        </PieChart>
      </ResponsiveContainer>
      <div style={{ position: "absolute", inset: 0, display: "grid", placeContent: "center", textAlign: "center" }} aria-hidden>
        <b style={{ fontSize: "1.4rem", lineHeight: 1.1 }}>{share(counts.VALID, total)}</b>
        <span style={{ fontSize: ".8125rem", color: "var(--mantine-color-dimmed)" }}>valid</span>
      </div>
    </div>
  );
}
