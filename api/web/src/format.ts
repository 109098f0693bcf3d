// Numbers and dates are written as the browser's user writes them; words are English.
const locale = typeof navigator === "undefined" ? "en-GB" : navigator.language;
const whole = new Intl.NumberFormat(locale);
const one = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });

export const number = (n: number) => whole.format(n);
/** counted is a number of things, in the right number. */
export const counted = (n: number, one: string, more = one + "s") => `${whole.format(n)} ${n === 1 ? one : more}`;

const short = new Intl.NumberFormat(locale, { notation: "compact" });
/** compact is a number at an axis, such as 20K. */
export const compact = (n: number) => short.format(n);

export const decimal = (n: number) => one.format(n);

/** share is a part of a whole in per cent; it says "<0.1 %" rather than 0 of what is there, and never rounds up to 100. */
export function share(part: number, of: number): string {
  if (of === 0 || part === 0) return "0 %";
  if (part >= of) return "100 %";
  const p = (part * 100) / of;
  if (p < 0.1) return "<0.1 %";
  return `${one.format(Math.min(99.9, p))} %`;
}

/** bytes is a size as people say it. */
export function bytes(n: number): string {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) {
    n /= 1000;
    i++;
  }
  if (i === 0) return n === 1 ? "1 byte" : `${whole.format(n)} bytes`;
  return `${one.format(n)} ${units[i]}`;
}

/** duration is a time span in its two largest units. */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  const units: [string, number][] = [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ];
  const at = units.findIndex(([, n]) => s >= n);
  const [big, n] = units[at]!;
  const [small, m] = units[at + 1]!;
  const rest = Math.floor((s % n) / m);
  return rest === 0 ? `${Math.floor(s / n)} ${big}` : `${Math.floor(s / n)} ${big} ${rest} ${small}`;
}

/** daysOf is a time span in a sentence: 7 days; one that is not of whole days as duration says it. */
export const daysOf = (seconds: number) => (seconds % 86400 === 0 ? counted(seconds / 86400, "day") : duration(seconds));

/** soon is a wait as people say it: in 20 seconds, in about an hour. */
export function soon(seconds: number): string {
  const units: [string, number][] = [
    ["minute", 60],
    ["hour", 3600],
    ["day", 86400],
  ];
  if (seconds < 90) return `in ${counted(Math.max(1, Math.ceil(seconds)), "second")}`;
  const at = units.findLastIndex(([, n]) => seconds >= 0.9 * n);
  const [unit, size] = units[at]!;
  const n = Math.round(seconds / size);
  return n === 1 ? `in about ${unit === "hour" ? "an" : "a"} ${unit}` : `in about ${n} ${unit}s`;
}

/** when is a moment as people say it, short; its title tells it exactly. */
export function when(iso: string, now = Date.now()): string {
  const t = Date.parse(iso);
  const ago = (now - t) / 1000;
  if (ago < -86400) return dayOf(new Date(t));
  if (ago < 0) return `in ${duration(-ago)}`;
  if (ago < 10) return "just now";
  if (ago < 86400) return `${duration(ago).split(" ").slice(0, 2).join(" ")} ago`;
  return dayOf(new Date(t));
}

const dayOf = (d: Date, more: Intl.DateTimeFormatOptions = {}) => d.toLocaleDateString(locale, { day: "numeric", month: "short", year: "numeric", ...more });

/** day is a day of the calendar, such as 2026-11-20, as people say it. */
export const day = (date: string) => dayOf(new Date(`${date}T00:00:00Z`), { timeZone: "UTC" });

/** clock is the time of day. */
export const clock = (at: Date) => at.toLocaleTimeString(locale, { hour: "2-digit", minute: "2-digit" });

/** hour is a whole hour of the day. */
export const hour = (at: Date) => at.toLocaleTimeString(locale, { hour: "numeric" });

/** dayOfMonth is the day at a moment, without its year. */
export const dayOfMonth = (at: Date) => dayOf(at, { year: undefined });

/** zone is the name of the browser's time zone at a moment, such as CET. */
export const zone = (at: number) => new Intl.DateTimeFormat(locale, { timeZoneName: "short" }).formatToParts(at).find((p) => p.type === "timeZoneName")!.value;

/** shortDay leaves the year out. */
export const shortDay = (date: string) => dayOf(new Date(`${date}T00:00:00Z`), { timeZone: "UTC", year: undefined });

/** ticks are the round numbers that an axis up to most needs, five steps at most. */
export function ticks(most: number): number[] {
  const least = Math.max(1, most / 5);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least)!;
  return Array.from({ length: Math.max(1, Math.ceil(most / step)) + 1 }, (_, i) => i * step);
}

/** exactly is a moment to the second, in the browser's time zone, which it names. */
export const exactly = (iso: string) =>
  new Date(iso).toLocaleString(locale, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });

export const delimiterNames: Record<string, string> = { ",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe" };
