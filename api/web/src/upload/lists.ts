import { isWorkbook, looksLike } from "./preview";
import { convert } from "./workbook";

// What people have is not always a CSV file: workbooks and pasted addresses become one before anything else looks at them.

/** List is a CSV file, and what was made of another to get it. */
export interface List {
  file: File;
  note: string;
}

/** asList is a file as a list. A workbook becomes the list of its first sheet with addresses, with a name and a time of change by
 * which it is known again. */
export async function asList(file: File): Promise<List> {
  const book = await isWorkbook(file).catch(() => false); // a file that cannot be read is told of when its rows are looked at
  if (!book) return { file, note: "" };
  const converted = await convert(file).catch(() => {
    throw new Error(`${file.name} cannot be read as an Excel workbook (.xlsx). Save it as CSV (in Excel: Save As, CSV UTF-8), then upload that file.`);
  });
  const { csv, sheet, place, of } = converted;
  const name = file.name.replace(/\.[^.]*$/, "") + ".csv";
  const which = of > 1 ? ` (${place} of ${of}), the first with addresses` : "";
  return { file: new File([csv], name, { type: "text/csv", lastModified: file.lastModified }), note: `From the sheet "${sheet}"${which}.` };
}

/** pasted is a text as a list: addresses with anything between them one a line, else the text as it is. */
export function pasted(text: string): List {
  const words = text.split(/[\s,;]+/).filter(Boolean);
  const list = words.every(looksLike) ? words.join("\n") + "\n" : text;
  return { file: new File([list], "Pasted addresses.csv", { type: "text/csv" }), note: "" };
}
