import readWorkbook from "read-excel-file/universal";
import { csvOf, sheetWithAddresses, type Converted } from "./workbook";

self.onmessage = ({ data: file }: MessageEvent<File>) => {
  readWorkbook(file, { trim: false, parseNumber: (text) => text }).then(
    (sheets) => {
      const at = sheetWithAddresses(sheets);
      const { sheet, data } = sheets[at]!;
      self.postMessage({ csv: new Blob(csvOf(data)), sheet, place: at + 1, of: sheets.length } satisfies Converted);
    },
    (error: unknown) => self.postMessage({ error: String(error) }),
  );
};
