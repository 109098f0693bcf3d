import type { ReactNode } from "react";

/** Cell is a step of a strip: a percentage, or none where nothing is known. */
interface Cell {
  mark: string;
  name: string;
  place: number | undefined;
  percent: number | undefined;
}

const fill = (percent: number) => (percent > 90 ? "fill-INVALID" : percent > 60 ? "fill-RISKY" : "fill-VALID");
const width = 720;
const height = 18;

/** Strip shows how full something was, step by step: taller and redder is fuller. */
export function Strip({ label, cells }: { label: string; cells: readonly Cell[] }) {
  const wide = width / cells.length;
  return (
    <svg className="strip" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <rect width={width} height={height} className="strip-ground" />
      {cells.map((c, i) =>
        c.percent ? (
          <rect key={c.name} className={fill(c.percent)} x={i * wide} width={wide} y={height * (1 - c.percent / 100)} height={(height * c.percent) / 100}>
            <title>{`${c.name}: ${c.percent} %`}</title>
          </rect>
        ) : null,
      )}
    </svg>
  );
}

/** Hours is the axis of time below strips: a mark at every sixth hour of the clock. */
export function Hours({ cells }: { cells: readonly Pick<Cell, "mark" | "place">[] }): ReactNode {
  return (
    <div className="hours" aria-hidden>
      {cells.map(
        (c, i) =>
          c.place !== undefined &&
          c.place % 6 === 0 && (
            <span key={i} style={{ left: `${(i / cells.length) * 100}%` }}>
              {c.mark}
            </span>
          ),
      )}
    </div>
  );
}
