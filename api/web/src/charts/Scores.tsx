import { counted, number } from "../format";

/** Scores is a histogram of rows by score, in ten steps of ten. */
export function Scores({ counts }: { counts: readonly number[] }) {
  const most = Math.max(1, ...counts);
  const range = (i: number) => (i === counts.length - 1 ? `${i * 10} to 100` : `${i * 10} to ${i * 10 + 9}`);
  const told = counts.flatMap((n, i) => (n > 0 ? [`score ${range(i)}: ${counted(n, "row")}`] : []));
  return (
    <div className="scores" role="img" aria-label={told.join(", ") || "no rows"}>
      {counts.map((n, i) => (
        <div key={i} title={`${range(i)}: ${counted(n, "row")}`}>
          <span className="count">{n > 0 && number(n)}</span>
          <i style={{ height: `${(n / most) * 7}rem`, minHeight: n > 0 ? 2 : 0 }} />
          <span>{i * 10}</span>
        </div>
      ))}
    </div>
  );
}
