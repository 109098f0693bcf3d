import { Bar, BarChart, CartesianGrid, Legend, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";
import type { Schemas } from "../api/client";
import { number, shortDay, ticks } from "../format";
import { statuses } from "../verdict";

const colors = { VALID: "var(--fill-valid)", RISKY: "var(--fill-risky)", INVALID: "var(--fill-invalid)", UNKNOWN: "var(--fill-unknown)" };

const order = [...statuses, "singles"];

/** DayBars shows verifications by day and status. The table below it says the same to those who do not see it. */
export default function DayBars({ days }: { days: Schemas["UsageDay"][] }) {
  const data = days.map((d) => ({ date: shortDay(d.date), ...d.counts, singles: d.singles }));
  const scale = ticks(Math.max(1, ...days.map(total)));
  return (
    <div style={{ height: 260 }} role="img" aria-label={`Verifications by day: ${number(days.reduce((n, d) => n + total(d), 0))} in ${days.length} days`}>
      <ResponsiveContainer width="100%" height="100%">
        <BarChart data={data} margin={{ top: 6, right: 4, left: 0, bottom: 0 }} accessibilityLayer={false}>
          <CartesianGrid vertical={false} stroke="var(--edge)" />
          <XAxis dataKey="date" tick={{ fill: "var(--mantine-color-dimmed)", fontSize: 12 }} tickLine={false} axisLine={{ stroke: "var(--edge)" }} interval="equidistantPreserveStart" minTickGap={24} />
          <YAxis tick={{ fill: "var(--mantine-color-dimmed)", fontSize: 12 }} tickLine={false} axisLine={false} width={52} ticks={scale} domain={[0, scale.at(-1)!]} tickFormatter={short} />
          <Tooltip
            cursor={{ fill: "var(--unknown-soft)" }}
            contentStyle={{ background: "var(--panel)", border: "1px solid var(--edge)", borderRadius: 8, color: "inherit", fontSize: 13 }}
            itemStyle={{ color: "var(--mantine-color-text)", padding: 0 }}
            itemSorter={(item) => order.indexOf(String(item.dataKey))}
            formatter={(v) => number(Number(v))}
          />
          <Legend itemSorter={(item) => order.indexOf(String(item.dataKey))} iconType="circle" iconSize={9} formatter={(v) => <span style={{ color: "var(--mantine-color-text)", fontSize: 13 }}>{v}</span>} />
          {statuses.map((s) => (
            <Bar key={s} dataKey={s} stackId="a" fill={colors[s]} isAnimationActive={false} />
          ))}
          <Bar dataKey="singles" name="Single checks" stackId="a" fill="var(--fill-single)" isAnimationActive={false} />
        </BarChart>
      </ResponsiveContainer>
    </div>
  );
}

function total(d: Schemas["UsageDay"]) {
  return Object.values(d.counts).reduce((a, b) => a + b, 0) + d.singles;
}

function short(n: number) {
  return new Intl.NumberFormat("en", { notation: "compact" }).format(n);
}
