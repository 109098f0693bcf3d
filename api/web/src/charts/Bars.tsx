import { useElementSize } from "@mantine/hooks";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { clock, number, shortDay, ticks } from "../format";
import { statuses } from "../verdict";

/** Kind is what a part of a bar counts. */
interface Kind {
  key: string;
  name: string;
  fill: string;
}

/** Slot is a bar: the mark below it, if it has one, and its parts. */
interface Slot {
  mark: string;
  name: string;
  counts: Record<string, number>;
}

const left = 52; // the axis of numbers
const bottom = 24; // the axis of time
const top = 8;
const markWidth = 64;

const compact = new Intl.NumberFormat("en", { notation: "compact" });

interface Props {
  label: string;
  kinds: readonly Kind[];
  slots: readonly Slot[];
  height?: number;
  /** What a number is called, where it is pointed at and at the axis. */
  say?: (n: number) => string;
  sayShort?: (n: number) => string;
}

/** Bars shows numbers over time. What stands next to it says the same to those who do not see it. */
export function Bars({ label, kinds, slots, height = 230, say = number, sayShort = compact.format }: Props) {
  const { ref, width } = useElementSize();
  const [at, setAt] = useState<number | null>(null);
  const total = (s: Slot) => kinds.reduce((n, k) => n + (s.counts[k.key] ?? 0), 0);
  const scale = ticks(Math.max(1, ...slots.map(total)));
  const most = scale.at(-1)!;
  const wide = Math.max(0, width - left) / slots.length; // of a bar
  const y = (n: number) => top + (1 - n / most) * (height - top - bottom);
  const marked = slots.flatMap((s, i) => (s.mark ? [i] : []));
  const every = Math.max(1, Math.ceil(markWidth / Math.max(1, (wide * slots.length) / marked.length)));
  const marks = new Set(marked.filter((_, n) => n % every === 0));
  const pointed = at === null ? undefined : slots[at];
  return (
    <div role="img" aria-label={label}>
      <div ref={ref} className="bars" onPointerLeave={() => setAt(null)}>
        <svg width="100%" height={height} aria-hidden>
          {scale.map((n) => (
            <g key={n}>
              <line x1={left} x2="100%" y1={y(n)} y2={y(n)} stroke="var(--edge)" />
              <text x={left - 8} y={y(n) + 4} textAnchor="end">
                {sayShort(n)}
              </text>
            </g>
          ))}
          {slots.map((s, i) => {
            let sum = 0;
            const x = left + i * wide;
            return (
              <g key={s.name} onPointerEnter={() => setAt(i)}>
                <rect x={x} y={top} width={wide} height={height - top - bottom} fill={at === i ? "var(--unknown-soft)" : "transparent"} />
                {kinds.map((k) => {
                  const from = sum;
                  sum += s.counts[k.key] ?? 0;
                  return sum > from && <rect key={k.key} className={k.fill} x={x + wide * 0.1} width={wide * 0.8} y={y(sum)} height={y(from) - y(sum)} />;
                })}
                {marks.has(i) && i * wide + markWidth / 2 < width - left && (
                  <text x={x + wide / 2} y={height - 6} textAnchor={i === 0 ? "start" : "middle"}>
                    {s.mark}
                  </text>
                )}
              </g>
            );
          })}
        </svg>
        {pointed && at !== null && (
          <div className="panel told" style={at < slots.length / 2 ? { left: left + (at + 1) * wide + 8 } : { right: width - left - at * wide + 8 }} aria-hidden>
            <b>{pointed.name}</b>
            {kinds.map((k) => (
              <div key={k.key}>
                {k.name}: {say(pointed.counts[k.key] ?? 0)}
              </div>
            ))}
          </div>
        )}
      </div>
      {kinds.length > 1 && (
        <ul className="kinds" aria-hidden>
          {kinds.map((k) => (
            <li key={k.key}>
              <i className={k.fill} />
              {k.name}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

const kinds: Kind[] = [...statuses.map((s) => ({ key: s, name: s, fill: `fill-${s}` })), { key: "SINGLE", name: "Single checks", fill: "fill-SINGLE" }];

/** DayBars are verifications by day and status. */
export function DayBars({ days }: { days: readonly Schemas["UsageDay"][] }) {
  const sum = days.reduce((n, d) => n + d.singles + statuses.reduce((m, s) => m + (d.counts[s] ?? 0), 0), 0);
  const slots = days.map((d) => ({ mark: shortDay(d.date), name: shortDay(d.date), counts: { ...d.counts, SINGLE: d.singles } }));
  return <Bars label={`Verifications by day: ${number(sum)} in ${days.length} days`} kinds={kinds} slots={slots} />;
}

type Point = Schemas["ActivityPoint"];

/** hours are the steps of the 24 hours before now, with what is known of each; whole hours of the reader's clock are marked. */
export function hours<T>(points: readonly Point[], step: number, now: number, of: (p: Point) => T): { at: number; mark: string; name: string; of: T | undefined }[] {
  const known = new Map(points.map((p) => [Date.parse(p.at), p]));
  const ms = step * 1000;
  const last = Math.floor(now / ms) * ms;
  return Array.from({ length: Math.round(86_400 / step) }, (_, i) => {
    const at = last - (86_400 / step - 1 - i) * ms;
    const p = known.get(at);
    const date = new Date(at);
    return { at, mark: date.getMinutes() * 60 < step ? clock(date) : "", name: `${clock(date)} to ${clock(new Date(at + ms))}`, of: p && of(p) };
  });
}

/** AnswerBars are answers by status in the last 24 hours. */
export function AnswerBars({ points, step, now }: { points: readonly Point[]; step: number; now: number }) {
  const slots = hours(points, step, now, (p) => ({ ...p.counts, SINGLE: p.singles })).map((h) => ({ ...h, counts: h.of ?? {} }));
  const sum = points.reduce((n, p) => n + p.singles + statuses.reduce((m, s) => m + p.counts[s], 0), 0);
  return <Bars label={`Answers in the last 24 hours: ${number(sum)}`} kinds={kinds} slots={slots} />;
}

/** FigureBars are one figure in the last 24 hours. */
export function FigureBars({ name, points, step, now, of, say = number, sayShort = compact.format }: { name: string; points: readonly Point[]; step: number; now: number; of: (p: Point) => number; say?: (n: number) => string; sayShort?: (n: number) => string }) {
  const slots = hours(points, step, now, of).map((h) => ({ ...h, counts: { figure: h.of ?? 0 } }));
  const most = Math.max(0, ...points.map(of));
  return <Bars label={`${name} in the last 24 hours: at most ${say(most)}`} kinds={[{ key: "figure", name, fill: "fill-SINGLE" }]} slots={slots} height={150} say={say} sayShort={sayShort} />;
}
