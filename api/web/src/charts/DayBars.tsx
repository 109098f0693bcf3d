import { useElementSize } from "@mantine/hooks";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { number, shortDay, ticks } from "../format";
import { statuses } from "../verdict";

type Day = Schemas["UsageDay"];

const kinds = [...statuses, "SINGLE"] as const;
const nameOf = (kind: (typeof kinds)[number]) => (kind === "SINGLE" ? "Single checks" : kind);
const countOf = (d: Day, kind: (typeof kinds)[number]) => (kind === "SINGLE" ? d.singles : (d.counts[kind] ?? 0));
const total = (d: Day) => kinds.reduce((n, k) => n + countOf(d, k), 0);

const height = 230;
const left = 52; // the axis of numbers
const bottom = 24; // the axis of days
const top = 8;
const labelWidth = 64;

const compact = new Intl.NumberFormat("en", { notation: "compact" });

/** DayBars shows verifications by day and status. The table below it says the same to those who do not see it. */
export function DayBars({ days }: { days: readonly Day[] }) {
  const { ref, width } = useElementSize();
  const [at, setAt] = useState<number | null>(null);
  const scale = ticks(Math.max(1, ...days.map(total)));
  const most = scale.at(-1)!;
  const wide = Math.max(0, width - left) / days.length; // of a day
  const y = (n: number) => top + (1 - n / most) * (height - top - bottom);
  const every = Math.max(1, Math.ceil(labelWidth / Math.max(1, wide)));
  const pointed = at === null ? undefined : days[at];
  return (
    <div role="img" aria-label={`Verifications by day: ${number(days.reduce((n, d) => n + total(d), 0))} in ${days.length} days`}>
      <div ref={ref} className="daybars" onPointerLeave={() => setAt(null)}>
        <svg width="100%" height={height} aria-hidden>
          {scale.map((n) => (
            <g key={n}>
              <line x1={left} x2="100%" y1={y(n)} y2={y(n)} stroke="var(--edge)" />
              <text x={left - 8} y={y(n) + 4} textAnchor="end">
                {compact.format(n)}
              </text>
            </g>
          ))}
          {days.map((d, i) => {
            let sum = 0;
            const x = left + i * wide;
            return (
              <g key={d.date} onPointerEnter={() => setAt(i)}>
                <rect x={x} y={top} width={wide} height={height - top - bottom} fill={at === i ? "var(--unknown-soft)" : "transparent"} />
                {kinds.map((k) => {
                  const from = sum;
                  sum += countOf(d, k);
                  return sum > from && <rect key={k} className={`fill-${k}`} x={x + wide * 0.1} width={wide * 0.8} y={y(sum)} height={y(from) - y(sum)} />;
                })}
                {i % every === 0 && i * wide + labelWidth / 2 < width - left && (
                  <text x={x + wide / 2} y={height - 6} textAnchor={i === 0 ? "start" : "middle"}>
                    {shortDay(d.date)}
                  </text>
                )}
              </g>
            );
          })}
        </svg>
        {pointed && at !== null && (
          <div className="panel told" style={at < days.length / 2 ? { left: left + (at + 1) * wide + 8 } : { right: width - left - at * wide + 8 }} aria-hidden>
            <b>{shortDay(pointed.date)}</b>
            {kinds.map((k) => (
              <div key={k}>
                {nameOf(k)}: {number(countOf(pointed, k))}
              </div>
            ))}
          </div>
        )}
      </div>
      <ul className="kinds" aria-hidden>
        {kinds.map((k) => (
          <li key={k}>
            <i className={`fill-${k}`} />
            {nameOf(k)}
          </li>
        ))}
      </ul>
    </div>
  );
}
