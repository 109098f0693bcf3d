import { useElementSize } from "@mantine/hooks";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { clock, compact, counted, dayOfMonth, duration, hour, number, shortDay, ticks, zone } from "../format";
import { statuses } from "../verdict";

/** Kind is what a part of a bar counts. */
interface Kind {
  key: string;
  name: string;
  fill: string;
}

/** Slot is a step of the axis below, and what was counted in it; undefined where nothing is known. */
interface Slot {
  name: string;
  counts: Record<string, number> | undefined;
  mark: string;
  /** Where it stands among the slots that can be marked, such as the hour of the day; undefined between these. */
  place: number | undefined;
  /** The mark begins a day. */
  strong?: boolean;
}

const left = 56; // the axis of numbers
const bottom = 28; // the axis of time
const top = 28; // the units
const markWidth = 60;
const tick = 5;
const fewSlots = 10; // so many have room for their numbers

interface Props {
  label: string;
  /** What the numbers count, and how the axis below is to be read. */
  unit: string;
  note?: string;
  kinds: readonly Kind[];
  slots: readonly Slot[];
  /** How many places there may be from a mark to the next, the fewest first. */
  every: readonly number[];
  height?: number;
  /** A figure that stands between two looks, rather than a count of what happened. */
  level?: boolean;
  /** A mark names its slot, rather than where that begins. */
  named?: boolean;
  say?: (n: number) => string;
}

/** Bars shows numbers over time. What stands next to it says the same to those who do not see it. */
export function Bars({ label, unit, note = "", kinds, slots, every, height = 230, level = false, named = false, say = number }: Props) {
  const { ref, width } = useElementSize();
  const [at, setAt] = useState<number | null>(null);
  const total = (s: Slot) => kinds.reduce((n, k) => n + (s.counts?.[k.key] ?? 0), 0);
  const scale = ticks(Math.max(1, ...slots.map(total)));
  const most = scale.at(-1)!;
  const wide = Math.max(0, width - left) / slots.length; // of a slot
  const y = (n: number) => top + (1 - n / most) * (height - top - bottom);
  const places = slots.filter((s) => s.place !== undefined).length;
  const apart = every.find((n) => (n * wide * slots.length) / places >= markWidth) ?? every.at(-1)!;
  const pointed = at === null ? undefined : slots[at];
  return (
    <div role="img" aria-label={label}>
      <div ref={ref} className="bars" onPointerLeave={() => setAt(null)}>
        <svg width="100%" height={height} aria-hidden>
          <text x={0} y={12} className="strong">
            {unit}
          </text>
          <text x="100%" y={12} textAnchor="end">
            {note}
          </text>
          {scale.map((n) => (
            <g key={n}>
              <line x1={left} x2="100%" y1={y(n)} y2={y(n)} className={n === 0 ? "base" : undefined} stroke="var(--edge)" />
              <text x={left - 8} y={y(n) + 4} textAnchor="end">
                {compact(n)}
              </text>
            </g>
          ))}
          {slots.map((s, i) => {
            let sum = 0;
            const x = left + i * wide;
            return (
              <g key={s.name} onPointerEnter={() => setAt(i)}>
                <rect x={x} y={top} width={wide} height={height - top - bottom} fill={at === i ? "var(--unknown-soft)" : "transparent"} />
                {!level &&
                  kinds.map((k) => {
                    const from = sum;
                    sum += s.counts?.[k.key] ?? 0;
                    return sum > from && <rect key={k.key} className={k.fill} x={x + wide * 0.1} width={wide * 0.8} y={y(sum)} height={y(from) - y(sum)} />;
                  })}
                {slots.length <= fewSlots && sum > 0 && (
                  <text x={x + wide / 2} y={y(sum) - 4} textAnchor="middle">
                    {compact(sum)}
                  </text>
                )}
                {s.place !== undefined && s.place % apart === 0 && <Mark slot={s} x={named ? x + wide / 2 : x} y={height - bottom} width={width} />}
              </g>
            );
          })}
          {level && runs(slots.map((s) => (s.counts ? total(s) : undefined))).map(({ from, values }) => <Level key={from} x={left + from * wide} wide={wide} heights={values.map(y)} base={y(0)} />)}
        </svg>
        {pointed && at !== null && (
          <div className="panel told" style={at < slots.length / 2 ? { left: left + (at + 1) * wide + 8 } : { right: width - left - at * wide + 8 }} aria-hidden>
            <b>{pointed.name}</b>
            <dl>
              {kinds.map((k) => (
                <div key={k.key} style={{ display: "contents" }}>
                  <dt>{k.name}</dt>
                  <dd>{pointed.counts ? say(pointed.counts[k.key] ?? 0) : "not known"}</dd>
                </div>
              ))}
            </dl>
          </div>
        )}
      </div>
      {kinds.length > 1 && (
        <ul className="kinds" style={{ marginLeft: left }} aria-hidden>
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

/** Mark is a place of the axis of time with its name, which stays within the width. */
function Mark({ slot: s, x, y, width }: { slot: Slot; x: number; y: number; width: number }) {
  const half = markWidth / 2;
  const anchor = x > width - half ? "end" : "middle";
  return (
    <>
      <line x1={x} x2={x} y1={y} y2={y + tick} className="base" />
      <text x={anchor === "end" ? width : x} y={y + tick + 14} textAnchor={anchor} className={s.strong ? "strong" : undefined}>
        {s.mark}
      </text>
    </>
  );
}

/** runs are the parts of a row of values without a gap, and where each begins. */
export function runs(values: readonly (number | undefined)[]): { from: number; values: number[] }[] {
  const found: { from: number; values: number[] }[] = [];
  values.forEach((v, i) => {
    if (v === undefined) return;
    if (i > 0 && values[i - 1] !== undefined) found.at(-1)!.values.push(v);
    else found.push({ from: i, values: [v] });
  });
  return found;
}

/** Level is a line from step to step, and what lies below it. */
function Level({ x, wide, heights, base }: { x: number; wide: number; heights: readonly number[]; base: number }) {
  const line = heights.map((y, i) => `${i === 0 ? "M" : "L"}${x + i * wide},${y}H${x + (i + 1) * wide}`).join("");
  return (
    <g pointerEvents="none">
      <path className="area" d={`${line}V${base}H${x}Z`} fillOpacity={0.7} />
      <path className="line" d={line} />
    </g>
  );
}

const kinds: Kind[] = [...statuses.map((s) => ({ key: s, name: s, fill: `fill-${s}` })), { key: "SINGLE", name: "Single checks", fill: "fill-SINGLE" }];

type Day = Schemas["UsageDay"];

/** daySlots are days up to the last, which is always marked. */
const daySlots = (days: readonly Day[], of: (d: Day) => Record<string, number>): Slot[] =>
  days.map((d, i) => ({ name: shortDay(d.date), mark: shortDay(d.date), place: days.length - 1 - i, counts: of(d) }));

const dayMarks = [1, 2, 3, 5, 7, 10, 14, 15, 30];

/** DayBars are verifications by day and status. */
export function DayBars({ days }: { days: readonly Day[] }) {
  const sum = days.reduce((n, d) => n + d.singles + statuses.reduce((m, s) => m + (d.counts[s] ?? 0), 0), 0);
  const slots = daySlots(days, (d) => ({ ...d.counts, SINGLE: d.singles }));
  return <Bars label={`Verifications by day: ${number(sum)} in ${days.length} days`} unit="answers" note="days in UTC" named kinds={kinds} slots={slots} every={dayMarks} />;
}

const creditKind: Kind[] = [{ key: "used", name: "Credits used", fill: "fill-SINGLE" }];

/** CreditBars are credits used by day. */
export function CreditBars({ days }: { days: readonly Day[] }) {
  const sum = days.reduce((n, d) => n + d.credits_used, 0);
  const slots = daySlots(days, (d) => ({ used: d.credits_used }));
  return <Bars label={`Credits used by day: ${number(sum)} in ${days.length} days`} unit="credits" note="days in UTC" named kinds={creditKind} slots={slots} every={dayMarks} height={190} />;
}

const rowKind: Kind[] = [{ key: "rows", name: "Rows", fill: "fill-SINGLE" }];

/** Scores is a histogram of rows by score, in ten steps of ten. */
export function Scores({ counts }: { counts: readonly number[] }) {
  const range = (i: number) => (i === counts.length - 1 ? `${i * 10} to 100` : `${i * 10} to ${i * 10 + 9}`);
  const told = counts.flatMap((n, i) => (n > 0 ? [`score ${range(i)}: ${counted(n, "row")}`] : []));
  const slots = counts.map((rows, i) => ({ name: `Score ${range(i)}`, mark: String(i * 10), place: i, counts: { rows } }));
  return <Bars label={told.join(", ") || "no rows"} unit="rows" note="by score" kinds={rowKind} slots={slots} every={[1, 2]} height={190} />;
}

type Point = Schemas["ActivityPoint"];

/** hours are the steps of the 24 hours before now, with what is known of each; whole hours of the reader's clock can be marked. */
export function hours<T>(points: readonly Point[], step: number, now: number, of: (p: Point) => T) {
  const known = new Map(points.map((p) => [Date.parse(p.at), p]));
  const ms = step * 1000;
  const last = Math.floor(now / ms) * ms;
  return Array.from({ length: Math.round(86_400 / step) }, (_, i) => {
    const at = last - (86_400 / step - 1 - i) * ms;
    const p = known.get(at);
    const date = new Date(at);
    const place = date.getMinutes() * 60 < step ? date.getHours() : undefined;
    return { name: `${clock(date)} to ${clock(new Date(at + ms))}`, mark: place === 0 ? dayOfMonth(date) : hour(date), place, strong: place === 0, of: p && of(p) };
  });
}

const hourMarks = [1, 2, 3, 6, 12];

/** AnswerBars are answers by status in the last 24 hours. */
export function AnswerBars({ points, step, now }: { points: readonly Point[]; step: number; now: number }) {
  const slots = hours(points, step, now, (p) => ({ ...p.counts, SINGLE: p.singles })).map((h) => ({ ...h, counts: h.of }));
  const sum = points.reduce((n, p) => n + p.singles + statuses.reduce((m, s) => m + p.counts[s], 0), 0);
  return <Bars label={`Answers in the last 24 hours: ${number(sum)}`} unit="answers" note={`in ${duration(step)} each, ${zone(now)}`} kinds={kinds} slots={slots} every={hourMarks} />;
}

interface FigureProps {
  name: string;
  unit: string;
  points: readonly Point[];
  step: number;
  now: number;
  of: (p: Point) => number;
  say?: (n: number) => string;
}

/** FigureLine is one figure in the last 24 hours. */
export function FigureLine({ name, unit, points, step, now, of, say = number }: FigureProps) {
  const slots = hours(points, step, now, of).map((h) => ({ ...h, counts: h.of === undefined ? undefined : { figure: h.of } }));
  const most = Math.max(0, ...points.map(of));
  return <Bars label={`${name} in the last 24 hours: at most ${say(most)}`} unit={unit} note={zone(now)} kinds={[{ key: "figure", name, fill: "fill-SINGLE" }]} slots={slots} every={hourMarks} height={170} level say={say} />;
}
