import { Accordion, Button, Group, NumberInput, Select, Stack, Switch, Table, Text, Textarea, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useEffect, useRef, useState, type DragEvent } from "react";
import { api, take, type Job, type JobStatus } from "../api/client";
import { isOver, jobsPage, recentJobs, session } from "../api/queries";
import { bytes, counted, daysOf, delimiterNames } from "../format";
import { Ask, Busy, Empty, Icon, Loaded, Page, Panel, To, Trouble } from "../parts";
import { DataTable } from "../parts/DataTable";
import { jobColumns, jobsPages, titleOf, useJobsSearch } from "../parts/JobTable";
import { StateFilter } from "../parts/StateFilter";
import { asList, pasted } from "../upload/lists";
import { beginning, columnPart, delimiterPart, isArray, preview, workbooks, type Preview } from "../upload/preview";
import { allChosen, choose, chosenDone, dismiss, start, useChosen, type Chosen, type Options } from "../upload/uploads";
import { resultsPath } from "../verdict";

export function Lists() {
  const chosen = useChosen();
  const kept = useQuery(session).data?.service.results_kept_seconds;
  const first = chosen[0];
  return (
    <Page
      title="Jobs"
      note={`Upload a list; every row comes back with its verdict, in the same order, with all its other columns.${kept ? ` Results are kept for ${daysOf(kept)}.` : ""}`}
    >
      {first ? <Prepare key={`${chosen.length} ${first.file.name}`} list={first} more={chosen.length - 1} /> : <Take />}
      <Jobs />
    </Page>
  );
}

/** Take takes lists: dropped, chosen or pasted. */
function Take() {
  const [over, setOver] = useState(false);
  const [wrong, setWrong] = useState("");
  const [reading, setReading] = useState(false);
  const [pastes, setPastes] = useState(false);
  async function look(files: readonly File[]) {
    setWrong("");
    setReading(true);
    const lists: Chosen[] = [];
    for (const file of files) await asList(file).then((list) => lists.push(list), (error: Error) => setWrong(error.message));
    setReading(false);
    choose(lists);
  }
  function dragOver(event: DragEvent) {
    event.preventDefault();
    setOver(true);
  }
  function drop(event: DragEvent) {
    event.preventDefault();
    setOver(false);
    void look([...event.dataTransfer.files]);
  }
  return (
    <div>
      {reading ? (
        <Panel>
          <Busy>Reading the file…</Busy>
        </Panel>
      ) : pastes ? (
        <Paste done={() => setPastes(false)} />
      ) : (
        <label className="drop" data-over={over} onDragOver={dragOver} onDragLeave={() => setOver(false)} onDrop={drop}>
          <input
            type="file"
            multiple
            accept={".csv,.tsv,.txt,.jsonl,.ndjson,.gz,.zst,.zip,text/csv,text/plain,application/gzip,application/zip,application/zstd," + workbooks.join()}
            onChange={(e) => {
              const files = [...(e.currentTarget.files ?? [])];
              e.currentTarget.value = ""; // the same name may be chosen again
              void look(files);
            }}
          />
          <Text component="span" c="dimmed" display="block" aria-hidden>
            <Icon name="upload" size={32} />
          </Text>
          <Text component="span" fw={600} display="block">
            Drop lists here, or choose files
          </Text>
          <Text component="span" c="dimmed" size="sm" display="block">
            CSV with comma, semicolon, tab or pipe, or JSON lines; plain, gzip, zstd or zip; Excel workbooks (.xlsx); up to 5,000,000 addresses
          </Text>
        </label>
      )}
      {!reading && !pastes && (
        <Button mt="xs" size="compact-sm" variant="default" onClick={() => setPastes(true)}>
          Paste addresses
        </Button>
      )}
      {wrong && (
        <Text role="alert" size="sm" mt="xs" className="ink-bad">
          {wrong}
        </Text>
      )}
    </div>
  );
}

function Paste({ done }: { done: () => void }) {
  const [text, setText] = useState("");
  return (
    <Panel title="Paste addresses">
      <form
        onSubmit={(e) => {
          e.preventDefault();
          choose([pasted(text)]);
        }}
      >
        <Stack>
          <Textarea
            label="Addresses"
            description="One a line, or separated by commas or spaces; or rows of a spreadsheet, with their columns"
            value={text}
            onChange={(e) => setText(e.currentTarget.value)}
            autosize
            minRows={5}
            maxRows={15}
            spellCheck={false}
            autoComplete="off"
            data-autofocus
          />
          <Group>
            <Button type="submit" disabled={!text.trim()}>
              Use them
            </Button>
            <Button variant="subtle" color="gray" onClick={done}>
              Cancel
            </Button>
          </Group>
        </Stack>
      </form>
    </Panel>
  );
}

function Prepare({ list, more }: { list: Chosen; more: number }) {
  const { file, note } = list;
  const [seen, setSeen] = useState<Preview | "none" | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    let there = true;
    beginning(file)
      .then((head) => {
        if (!there) return;
        if (head && isArray(head)) setError(new Error("This is a JSON array. Upload JSON lines instead: one object a line, without the brackets and the commas between them."));
        else setSeen(head ? preview(head) : "none");
      })
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
        <Button size="compact-sm" variant="default" onClick={chosenDone}>
          {more > 0 ? "Skip this list" : "Choose another"}
        </Button>
      }
    >
      {(note || more > 0) && (
        <Text size="sm" c="dimmed" mb="sm" role="status">
          {note} {more > 0 && `${counted(more, "more list follows", "more lists follow")}.`}
        </Text>
      )}
      {error !== null && <Trouble error={error} />}
      {!seen && error === null && <Busy>Looking at the first rows…</Busy>}
      {seen && <Form list={list} seen={seen === "none" ? null : seen} />}
    </Panel>
  );
}

/** newest is the id of the upload that began last: of several, its job is shown. */
let newest = "";

function Form({ list, seen }: { list: Chosen; seen: Preview | null }) {
  const { file } = list;
  const client = useQueryClient();
  const router = useRouter();
  const visit = useQuery(session).data;
  const [hasHeader, setHasHeader] = useState(seen ? seen.header !== null : true);
  const [column, setColumn] = useState(seen && seen.column >= 0 ? String(seen.column) : "");
  const [named, setNamed] = useState("");
  const [options, setOptions] = useState<Omit<Options, "column" | "hasHeader" | "delimiter">>({
    name: "",
    callbackUrl: "",
    callbackContent: "full",
    maxHours: 0,
    maxAgeDays: 7,
    ...list.options,
  });
  const set = (news: Partial<Options>) => setOptions((old) => ({ ...old, ...news }));
  const table = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // What matters is seen, however many columns stand before it.
    const head = table.current?.querySelectorAll("th")[Number(column)];
    if (column && head) table.current!.scrollLeft = head.offsetLeft + head.offsetWidth - table.current!.clientWidth;
  }, [column, seen]);

  const first = seen?.header ?? seen?.rows[0] ?? [];
  const records = seen ? (seen.header && hasHeader ? seen.rows : seen.header ? [seen.header, ...seen.rows] : hasHeader ? seen.rows.slice(1) : seen.rows) : [];
  const titles = hasHeader ? (seen?.header ?? seen?.rows[0] ?? []) : first.map((_, i) => `Column ${i + 1}`);
  const tooLarge = visit && file.size > visit.service.max_upload_bytes;
  const missing = seen !== null && column === "";
  // The server is told what is shown: the delimiter, and which column it gives.
  const part = seen && !missing ? columnPart(hasHeader ? titles : null, Number(column)) : named.trim();
  const unnamed = part === null;

  function send() {
    if (part === null) return;
    const id = start(file, { ...options, columnCheck: undefined, column: part, hasHeader, delimiter: seen?.delimiter ? delimiterPart(seen.delimiter) : undefined }, (job) => {
      client.setQueryData(["job", job.job_id], job);
      void client.invalidateQueries({ queryKey: ["jobs"] });
      if (router.state.location.pathname !== "/lists" || allChosen().length > 0 || id !== newest) return; // its user does something else
      dismiss(id);
      void router.navigate({ to: "/lists/$jobId", params: { jobId: job.job_id } });
    }, list.url);
    newest = id;
    chosenDone();
  }

  return (
    <Stack>
      {seen ? (
        <>
          <Group gap="lg" align="flex-end">
            <Select
              label="E-mail column"
              data={titles.slice(0, seen.fields).map((t, i) => ({ value: String(i), label: t.trim() ? `${t} (${i + 1})` : `Column ${i + 1}` }))}
              value={column}
              onChange={(v) => setColumn(v ?? "")}
              allowDeselect={false}
              placeholder="Choose one"
              error={missing ? "No e-mail column detected: choose one" : unnamed ? "Another column has the same name: rename one in the file" : undefined}
              w="18rem"
              maw="100%"
            />
            {seen.delimiter && <Switch label="The first row is a header" checked={hasHeader} onChange={(e) => setHasHeader(e.currentTarget.checked)} />}
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
                      <Table.Td key={j} bg={String(j) === column ? "var(--info-soft)" : undefined} className="cell">
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
        {seen && (seen.delimiter ? <>Delimiter: {delimiterNames[seen.delimiter] ?? seen.delimiter}. </> : "JSON lines, one object a line. ")}
        What the server reads is shown with its exact price before the job starts.
      </Text>
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
        <Button leftSection={<Icon name="upload" size={16} />} onClick={send} disabled={missing || unnamed || Boolean(tooLarge)}>
          Upload
        </Button>
        <Button variant="subtle" color="gray" onClick={chosenDone}>
          Cancel
        </Button>
      </Group>
    </Stack>
  );
}

const columns = jobColumns<Job>("/lists/$jobId");

/** Selection is what can be done with several jobs at once: with those of them that are over. */
function Selection({ jobs, done }: { jobs: Job[]; done: () => void }) {
  const client = useQueryClient();
  const over = jobs.filter((j) => isOver(j.status));
  const kept = over.filter((j) => j.status === "completed" || j.status === "cancelled");
  return (
    <>
      <Button size="compact-sm" variant="default" disabled={kept.length === 0} leftSection={<Icon name="download" size={14} />} onClick={() => download(kept)}>
        Download {counted(kept.length, "result")}
      </Button>
      <Ask
        label={`Delete ${counted(over.length, "job")}`}
        verb="Delete"
        title={`Delete ${counted(over.length, "job")}?`}
        button={{ size: "compact-sm", disabled: over.length === 0 }}
        act={async () => {
          for (const j of over) await take(api.DELETE("/v1/verify/bulk/{job_id}", { params: { path: { job_id: j.job_id } } }));
        }}
        done={() => {
          for (const j of over) client.removeQueries({ queryKey: ["job", j.job_id] });
          void client.invalidateQueries({ queryKey: ["jobs"] });
          done();
        }}
      >
        This permanently deletes the jobs and their results. Used credits are not refunded.{over.length < jobs.length && " Jobs that are not finished stay."}
      </Ask>
    </>
  );
}

/** download has the browser save the results of each job. */
function download(jobs: Job[]) {
  for (const j of jobs) {
    const link = document.createElement("a");
    link.href = resultsPath(j.job_id, [], "csv", "none");
    link.download = "";
    link.click();
  }
}

function NoJobs({ status }: { status: JobStatus | undefined }) {
  if (status) {
    return (
      <Empty icon="lists" title={`No ${status} jobs`}>
        Choose another state above.
      </Empty>
    );
  }
  return (
    <Empty icon="lists" title="No jobs yet">
      Drop a file above, or upload one <To to="/docs">with the API</To>.
    </Empty>
  );
}

function Jobs() {
  const [search, show] = useJobsSearch();
  const { status, sort, cursor } = search;
  const first = !status && !cursor && (sort ?? "-created_at") === "-created_at";
  const recent = useQuery({ ...recentJobs, enabled: first });
  const page = useQuery({ ...jobsPage({ status, sort, cursor }), enabled: !first });
  // News of events replace the first page, but say nothing of what comes after it.
  const follow = useQuery({ ...jobsPage({}), enabled: first });
  const query = first ? recent : page;
  const next = first ? follow.data?.next_cursor : page.data?.next_cursor;
  return (
    <Panel
      title="Your jobs"
      actions={<StateFilter status={status} change={(status) => show({ status, sort })} />}
    >
      <Loaded query={query} what="your jobs">
        {({ jobs }) => (
          <DataTable
            label="Jobs"
            columns={columns}
            rows={jobs}
            keyOf={(j) => j.job_id}
            empty={<NoJobs status={status} />}
            bulk={{ nameOf: titleOf, act: (chosen, done) => <Selection jobs={chosen} done={done} /> }}
            pages={jobsPages(search, next, show)}
          />
        )}
      </Loaded>
    </Panel>
  );
}
