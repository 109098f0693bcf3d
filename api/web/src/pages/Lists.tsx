import { Accordion, Button, Group, NumberInput, Select, Stack, Switch, Table, Text, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState, type DragEvent } from "react";
import { credits, jobsPage, recentJobs, session } from "../api/queries";
import { bytes, duration, number } from "../format";
import { Busy, Empty, Icon, Loaded, Page, Panel, To, Trouble, Warning } from "../parts";
import { JobTable, Pager, StateFilter, useJobsSearch } from "../parts/JobTable";
import { beginning, columnPart, count, delimiterPart, isWorkbook, preview, workbooks, type Preview } from "../upload/preview";
import { choose, start, useChosen, type Options } from "../upload/uploads";

export function Lists() {
  const file = useChosen();
  const kept = useQuery(session).data?.service.results_kept_seconds;
  return (
    <Page
      title="Jobs"
      note={`Upload a CSV file; every row comes back with its verdict, in the same order, with all its other columns.${kept ? ` Results are kept for ${duration(kept)}.` : ""}`}
    >
      {file ? <Prepare key={file.name + file.size + file.lastModified} file={file} done={() => choose(null)} /> : <Drop take={choose} />}
      <Jobs />
    </Page>
  );
}

function Drop({ take }: { take: (f: File) => void }) {
  const [over, setOver] = useState(false);
  const [wrong, setWrong] = useState("");
  function drop(event: DragEvent) {
    event.preventDefault();
    setOver(false);
    const { files } = event.dataTransfer;
    if (files.length !== 1) setWrong("Drop one file at a time.");
    else void look(files[0]!);
  }
  async function look(file: File) {
    const book = await isWorkbook(file).catch(() => false); // a file that cannot be read is told of when its rows are looked at
    if (book) setWrong(`${file.name} is a spreadsheet workbook, not a CSV file. Save it as CSV (in Excel: Save As, CSV UTF-8), then upload that file.`);
    else take(file);
  }
  return (
    <div>
      <label className="drop" data-over={over} onDragOver={(e) => (e.preventDefault(), setOver(true))} onDragLeave={() => setOver(false)} onDrop={drop}>
        <input
          type="file"
          accept={".csv,.tsv,.txt,.gz,.zst,.zip,text/csv,text/plain,application/gzip,application/zip,application/zstd," + workbooks.join()}
          onChange={(e) => {
            const file = e.currentTarget.files?.[0];
            e.currentTarget.value = ""; // the same name may be chosen again
            if (file) void look(file);
          }}
        />
        <Text component="span" c="dimmed" display="block" aria-hidden>
          <Icon name="upload" size={32} />
        </Text>
        <Text component="span" fw={600} display="block">
          Drop a list here, or choose a file
        </Text>
        <Text component="span" c="dimmed" size="sm" display="block">
          CSV with comma, semicolon, tab or pipe; plain, gzip, zstd or zip; up to 5,000,000 addresses
        </Text>
      </label>
      {wrong && (
        <Text role="alert" size="sm" mt="xs" className="ink-bad">
          {wrong}
        </Text>
      )}
    </div>
  );
}

interface Rows {
  count: number;
  done: boolean;
}

/** useRows counts a file's rows while its sender looks at the rest. */
function useRows(file: File, seen: Preview | null): Rows | null {
  const [rows, setRows] = useState<Rows | null>(null);
  useEffect(() => {
    if (!seen) return;
    const stop = new AbortController();
    count(file, seen, stop.signal, (n) => setRows({ count: n, done: false }))
      .then((n) => !stop.signal.aborted && setRows(n === null ? null : { count: n, done: true }))
      .catch(() => setRows(null));
    return () => stop.abort();
  }, [file, seen]);
  return rows;
}

function Prepare({ file, done }: { file: File; done: () => void }) {
  const [seen, setSeen] = useState<Preview | "none" | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    let there = true;
    beginning(file)
      .then((head) => there && setSeen(head ? preview(head) : "none"))
      .catch(() => there && setError(new Error("This file cannot be read: choose it again, or another one.")));
    return () => {
      there = false;
    };
  }, [file]);
  return (
    <Panel
      title={
        <>
          {file.name} <Text component="span" c="dimmed" fw={400} fz="sm">{bytes(file.size)}</Text>
        </>
      }
      actions={
        <Button size="compact-sm" variant="default" onClick={done}>
          Choose another
        </Button>
      }
    >
      {error !== null && <Trouble error={error} />}
      {!seen && error === null && <Busy>Looking at the first rows…</Busy>}
      {seen && <Form file={file} seen={seen === "none" ? null : seen} done={done} />}
    </Panel>
  );
}

const delimiterNames: Record<string, string> = { ",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe" };

function Form({ file, seen, done }: { file: File; seen: Preview | null; done: () => void }) {
  const client = useQueryClient();
  const rows = useRows(file, seen);
  const visit = useQuery(session).data;
  const balance = useQuery(credits).data;
  const [hasHeader, setHasHeader] = useState(seen ? seen.header !== null : true);
  const [column, setColumn] = useState(seen && seen.column >= 0 ? String(seen.column) : "");
  const [named, setNamed] = useState("");
  const [options, setOptions] = useState<Omit<Options, "column" | "hasHeader">>({
    name: "",
    callbackUrl: "",
    callbackContent: "full",
    maxHours: 0,
    maxAgeDays: 7,
  });
  const set = (news: Partial<Options>) => setOptions((old) => ({ ...old, ...news }));
  const button = useRef<HTMLButtonElement>(null);

  const table = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // What matters is seen, however many columns stand before it.
    const head = table.current?.querySelectorAll("th")[Number(column)];
    if (column && head) table.current!.scrollLeft = head.offsetLeft + head.offsetWidth - table.current!.clientWidth;
  }, [column, seen]);

  const first = seen?.header ?? seen?.rows[0] ?? [];
  const records = seen ? (seen.header && hasHeader ? seen.rows : seen.header ? [seen.header, ...seen.rows] : hasHeader ? seen.rows.slice(1) : seen.rows) : [];
  const titles = hasHeader ? (seen?.header ?? seen?.rows[0] ?? []) : first.map((_, i) => `Column ${i + 1}`);
  const addresses = rows ? Math.max(0, rows.count - (hasHeader ? 1 : 0)) : null;
  const tooLarge = visit && file.size > visit.service.max_upload_bytes;
  const short = addresses !== null && rows?.done && balance && balance.balance < addresses;
  const missing = seen !== null && column === "";
  // The server is told what is shown: the delimiter, and which column it gives.
  const part = seen && !missing ? columnPart(hasHeader ? titles : null, Number(column)) : named.trim();
  const unnamed = part === null;

  function send() {
    if (part === null) return;
    start(file, { ...options, column: part, hasHeader, delimiter: seen ? delimiterPart(seen.delimiter) : undefined }, (job) => {
      client.setQueryData(["job", job.job_id], job);
      void client.invalidateQueries({ queryKey: ["jobs"] });
      void client.invalidateQueries({ queryKey: ["credits"] });
    });
    done();
  }

  return (
    <Stack>
      {seen ? (
        <>
          <Group gap="lg" align="flex-end">
            <Select
              label="E-mail column"
              data={titles.map((t, i) => ({ value: String(i), label: t.trim() ? `${t} (${i + 1})` : `Column ${i + 1}` }))}
              value={column}
              onChange={(v) => setColumn(v ?? "")}
              allowDeselect={false}
              placeholder="Choose one"
              error={missing ? "No e-mail column detected: choose one" : unnamed ? "Another column has the same name: rename one in the file" : undefined}
              w="18rem"
              maw="100%"
            />
            <Switch label="The first row is a header" checked={hasHeader} onChange={(e) => setHasHeader(e.currentTarget.checked)} />
          </Group>
          <div ref={table} className="scroll" tabIndex={0} role="region" aria-label="First rows of the list">
            <Table withTableBorder withColumnBorders fz="sm">
              <Table.Thead>
                <Table.Tr>
                  {titles.map((t, i) => (
                    <Table.Th key={i} bg={String(i) === column ? "var(--info-soft)" : undefined}>
                      {t || `Column ${i + 1}`}
                      {String(i) === column && <Text component="span" size="xs" c="dimmed" fw={400}>{" "}addresses</Text>}
                    </Table.Th>
                  ))}
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {records.slice(0, 6).map((r, i) => (
                  <Table.Tr key={i}>
                    {titles.map((_, j) => (
                      <Table.Td key={j} bg={String(j) === column ? "var(--info-soft)" : undefined} style={{ maxWidth: "18rem", overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" }}>
                        {r[j] ?? ""}
                      </Table.Td>
                    ))}
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </div>
        </>
      ) : (
        <>
          <Text size="sm">This compressed file cannot be previewed. The column named email will be used.</Text>
          <Group gap="lg" align="flex-end">
            <TextInput label="Another column" description="Its header, or its number from 1" value={named} onChange={(e) => setNamed(e.currentTarget.value)} />
            <Switch label="The first row is a header" checked={hasHeader} onChange={(e) => setHasHeader(e.currentTarget.checked)} />
          </Group>
        </>
      )}
      <Text size="sm" role="status">
        {seen && <>Delimiter: {delimiterNames[seen.delimiter] ?? seen.delimiter}. </>}
        {addresses === null ? (
          seen ? "Counting rows… " : "Rows are counted after upload. "
        ) : (
          <>
            <b>{number(addresses)}</b> {rows?.done ? "rows." : "rows so far…"} At most <b>{number(addresses)}</b> credits. UNKNOWN results, duplicates and blank rows are free.{" "}
          </>
        )}
      </Text>
      {short && (
        <Warning>
          Your balance is {number(balance.balance)} credits. If the list has more unique addresses than that, the upload is rejected and nothing is charged.
        </Warning>
      )}
      {tooLarge && <Trouble error={new Error(`The file is over ${bytes(visit.service.max_upload_bytes)}: split it, or compress it with gzip.`)} />}
      <Accordion variant="contained">
        <Accordion.Item value="more">
          <Accordion.Control>More options</Accordion.Control>
          <Accordion.Panel>
            <Stack gap="sm" maw="40rem">
              <TextInput label="Name of the job" placeholder={file.name} value={options.name} maxLength={200} onChange={(e) => set({ name: e.currentTarget.value })} />
              <TextInput
                label="Callback URL"
                description="The results are POSTed here when the job is done"
                placeholder="https://example.com/hook"
                type="url"
                value={options.callbackUrl}
                onChange={(e) => set({ callbackUrl: e.currentTarget.value })}
              />
              {options.callbackUrl && (
                <Select
                  label="Callback payload"
                  data={[
                    { value: "full", label: "All results" },
                    { value: "auto", label: "All results, up to 10,000 rows; else a link" },
                    { value: "link", label: "A link to the results" },
                  ]}
                  value={options.callbackContent}
                  onChange={(v) => set({ callbackContent: (v ?? "full") as Options["callbackContent"] })}
                  allowDeselect={false}
                />
              )}
              <Switch
                label="Include the evidence of each row"
                description="Adds columns with the SMTP reply, the control it rests on, and the rule"
                checked={options.details ?? false}
                onChange={(e) => set({ details: e.currentTarget.checked })}
              />
              <NumberInput label="Reuse cached results up to (days)" min={0} max={3650} value={options.maxAgeDays} onChange={(v) => set({ maxAgeDays: Number(v) || 0 })} />
              <NumberInput label="Stop retrying after (hours)" placeholder="Plan default, at least 24" min={1} max={720} value={options.maxHours || ""} onChange={(v) => set({ maxHours: Math.min(720, Math.max(0, Number(v) || 0)) })} />
            </Stack>
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
      <Group>
        <Button ref={button} leftSection={<Icon name="upload" size={16} />} onClick={send} disabled={missing || unnamed || Boolean(tooLarge)}>
          Upload and verify
        </Button>
        <Button variant="subtle" color="gray" onClick={done}>
          Cancel
        </Button>
      </Group>
    </Stack>
  );
}

function Jobs() {
  const [{ status, cursor }, show] = useJobsSearch();
  const first = !status && !cursor;
  const recent = useQuery({ ...recentJobs, enabled: first });
  const page = useQuery({ ...jobsPage(status ?? "", cursor ?? ""), enabled: !first });
  // News of events replace the first page, but say nothing of what comes after it.
  const follow = useQuery({ ...jobsPage("", ""), enabled: first });
  const query = first ? recent : page;
  const next = first ? follow.data?.next_cursor : page.data?.next_cursor;
  return (
    <Panel
      title="Your jobs"
      actions={<StateFilter status={status} change={(status) => show({ status })} />}
    >
      <Loaded query={query} what="your jobs">
        {({ jobs }) =>
          jobs.length === 0 ? (
            status ? (
              <Empty icon="lists" title={`No ${status} jobs`} />
            ) : (
              <Empty icon="lists" title="No jobs yet">
                Drop a file above, or upload one <To to="/docs">with the API</To>.
              </Empty>
            )
          ) : (
            <JobTable jobs={jobs} />
          )
        }
      </Loaded>
      <Pager cursor={cursor} next={next} go={(cursor) => show({ status, cursor })} />
    </Panel>
  );
}
