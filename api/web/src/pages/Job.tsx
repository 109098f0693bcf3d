import { Alert, Button, Grid, Group, Progress, SegmentedControl, Stack, Table, Tabs, Text, Title } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { Scores } from "../charts/Bars";
import { ApiError, api, take, type Job, type Schemas } from "../api/client";
import { callback, credits, isOver, job as jobQuery, jobProviders, reasons, session } from "../api/queries";
import { later } from "../later";
import { bytes, counted, decimal, delimiterNames, duration, exactly, number, share } from "../format";
import { Ask, Badge, CopyButton, Cut, Empty, Facts, Icon, JobBadge, Loaded, Moment, Note, Page, Panel, Rows, Stat, Stats, StatusBadge, To, Trouble, Warning, type Column } from "../parts";
import { callbackFails, Shares, titleOf, usePace } from "../parts/JobTable";
import { useTimeLeft } from "../parts/timeLeft";
import { WhyPanel } from "../parts/WhyPanel";
import { useFragment, type JobTab } from "../search";
import { choose, sourceOf } from "../upload/uploads";
import { deferred, downloads, resultsPath, statuses } from "../verdict";

const ByProvider = later(() => import("./JobRows").then((m) => m.ByProvider), Panel);
const Search = later(() => import("./JobRows").then((m) => m.Search), Panel);

export function JobPage() {
  const { jobId } = useParams({ strict: false });
  const query = useQuery(jobQuery(jobId!));
  const admin = useQuery(session).data?.user.role === "admin";
  if (query.error instanceof ApiError && query.error.status === 404) {
    return (
      <Page title="Job">
        <Panel>
          <Empty icon="lists" title="Job not found">
            It was deleted, or it belongs to another account. <To to="/lists">See your jobs</To>
            {admin && (
              <>
                , or <To to="/operator/jobs/$jobId" params={{ jobId: jobId! }}>look for it among all jobs</To>
              </>
            )}
            .
          </Empty>
        </Panel>
      </Page>
    );
  }
  if (!query.data) {
    return (
      <Page title="Job">
        <Loaded query={query} what="the job">
          {() => null}
        </Loaded>
      </Page>
    );
  }
  return <Found job={query.data} />;
}

function Found({ job: j }: { job: Job }) {
  const over = isOver(j.status);
  return (
    <Page
      title={titleOf(j)}
      tab={over ? `${j.status}: ${titleOf(j)}` : `${Math.floor(j.percent)} %, ${titleOf(j)}`}
      note={
        <>
          <JobBadge job={j} />{" "}
          {j.filename && j.filename !== titleOf(j) && (
            <>
              <Cut text={j.filename} /> ·{" "}
            </>
          )}
          uploaded <Moment at={j.created_at} />
          {over && (
            <>
              {" "}
              · done <Moment at={j.finished_at} />
            </>
          )}
        </>
      }
      actions={<Actions job={j} />}
    >
      {j.status === "failed" && <Trouble error={new Error(j.error ?? "The job has failed.")} />}
      {j.damage && <Warning title="The server's disk damaged a file of this job">{j.damage.charAt(0).toUpperCase() + j.damage.slice(1)}.</Warning>}
      {j.status === "expired" && (
        <Alert color="gray" icon={<Icon name="trash" />} styles={{ message: { color: "inherit" } }}>
          The results have expired and were deleted. Upload the list again to verify it again.
        </Alert>
      )}
      {j.status === "ready" ? <Ready job={j} /> : !over && <Going job={j} />}
      {j.status !== "ready" && (
        <Grid gap="lg">
          <Grid.Col span={{ base: 12, md: 6 }}>
            <Panel tall title="Outcome">
              <Outcome job={j} />
            </Panel>
          </Grid.Col>
          <Grid.Col span={{ base: 12, md: 6 }}>
            <Panel tall title={over ? "Downloads" : "Partial downloads"}>
              <Downloads job={j} />
            </Panel>
          </Grid.Col>
        </Grid>
      )}
      {j.status === "ready" ? (
        <Panel title="Details">
          <Details job={j} />
        </Panel>
      ) : (
        <More job={j} />
      )}
    </Page>
  );
}

interface Part {
  tab: JobTab;
  title: string;
  shown: () => ReactNode;
}

/** partsOf are what there is to look at of a job, beyond its outcome, the most asked for first. */
function partsOf(j: Job): Part[] {
  const readable = j.status === "completed" || j.status === "cancelled";
  const parts: Part[] = [];
  if (j.status === "running") parts.push({ tab: "receivers", title: "Receivers", shown: () => <WhyPanel id={j.job_id} /> });
  if (Object.keys(j.reasons).length > 0) parts.push({ tab: "reasons", title: "Reasons and scores", shown: () => <Reasons job={j} /> });
  if (readable && j.total_rows > 0) parts.push({ tab: "receivers", title: "Receivers", shown: () => <ByProvider job={j} /> });
  if ((readable || j.processed > 0) && j.status !== "expired" && j.status !== "failed") parts.push({ tab: "rows", title: "Rows", shown: () => <Search job={j} /> });
  if (j.callback_url) parts.push({ tab: "callback", title: "Callback", shown: () => <Callback job={j} /> });
  const details = () => (
    <Panel title="Details">
      <Details job={j} />
    </Panel>
  );
  return [...parts, { tab: "details", title: "Details", shown: details }];
}

/** More is the second level of the page: one part of the job at a time, which the address names. */
function More({ job: j }: { job: Job }) {
  const { tab }: { tab?: JobTab | undefined } = useSearch({ strict: false });
  const [fragment] = useFragment();
  const navigate = useNavigate();
  const parts = partsOf(j);
  const wanted = tab ?? (fragment.has("q") ? "rows" : undefined);
  const shown = parts.find((p) => p.tab === wanted) ?? parts[0]!;
  return (
    <Tabs
      value={shown.tab}
      onChange={(t) => void navigate({ to: ".", search: { tab: parts.find((p) => p.tab === t)?.tab }, hash: true, resetScroll: false })}
      keepMounted={false}
    >
      <Tabs.List mb="md">
        {parts.map((p) => (
          <Tabs.Tab key={p.tab} value={p.tab}>
            {p.title}
            {p.tab === "callback" && callbackFails(j) && (
              <>
                {" "}
                <Badge tone="bad">{j.callback_status === "failed" ? "failed" : "failing"}</Badge>
              </>
            )}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      <Tabs.Panel value={shown.tab}>{shown.shown()}</Tabs.Panel>
    </Tabs>
  );
}

function useAct(id: string) {
  const client = useQueryClient();
  return (next: Job) => {
    client.setQueryData(["job", id], next);
    void client.invalidateQueries({ queryKey: ["jobs"] });
    void client.invalidateQueries({ queryKey: ["credits"] });
  };
}

function Actions({ job: j }: { job: Job }) {
  const params = { params: { path: { job_id: j.job_id } } };
  const put = useAct(j.job_id);
  const client = useQueryClient();
  const navigate = useNavigate();
  const move = useMutation({
    mutationFn: (what: "start" | "pause" | "resume") => take(api.POST(`/v1/verify/bulk/{job_id}/${what}`, params)),
    onSuccess: put,
  });
  return (
    <>
      {move.error && (
        <Text size="sm" className="ink-bad" role="alert">
          {move.error.message}
        </Text>
      )}
      {(j.status === "running" || j.status === "queued") && (
        <Button variant="default" loading={move.isPending} onClick={() => move.mutate("pause")} leftSection={<Icon name="pause" size={16} />}>
          Pause
        </Button>
      )}
      {j.status === "ready" && (
        <Button loading={move.isPending} onClick={() => move.mutate("start")} leftSection={<Icon name="play" size={16} />}>
          Start
        </Button>
      )}
      {j.status === "paused" && (
        <Button loading={move.isPending} onClick={() => move.mutate("resume")} leftSection={<Icon name="play" size={16} />}>
          Resume
        </Button>
      )}
      {["queued", "running", "paused"].includes(j.status) && (
        <Ask label="Cancel" verb="Cancel the job" title="Cancel this job?" icon="stop" act={async () => put(await take(api.POST("/v1/verify/bulk/{job_id}/cancel", params)))}>
          Verified rows are kept and charged. Remaining rows become UNKNOWN and are free. You still get a result file.
        </Ask>
      )}
      {(isOver(j.status) || j.status === "ready") && (
        <Ask
          label="Delete"
          verb="Delete the job"
          title="Delete this job?"
          icon="trash"
          act={() => take(api.DELETE("/v1/verify/bulk/{job_id}", params))}
          done={() => {
            void navigate({ to: "/lists" });
            client.removeQueries({ queryKey: ["job", j.job_id] });
            void client.invalidateQueries({ queryKey: ["jobs"] });
          }}
        >
          This permanently deletes the job and its results. Used credits are not refunded.
        </Ask>
      )}
    </>
  );
}

/** Ready is what the server read of a list, and what it will cost, before the job starts. */
function Ready({ job: j }: { job: Job }) {
  const p = j.preview;
  const needed = j.credits_needed ?? 0;
  const balance = useQuery(credits).data?.balance;
  return (
    <Panel title="Ready to start">
      <Stack>
        <Stats>
          <Stat name="Credits needed" note="at most: UNKNOWN results are free">
            {number(needed)}
          </Stat>
          <Stat name="Distinct addresses" note={`of ${counted(j.total_rows, "row")}`}>
            {number(j.unique_addresses)}
          </Stat>
          <Stat name="Free of charge" note={`${counted(j.duplicate_rows, "duplicate")}, ${number(j.blank_rows)} blank`}>
            {number(j.duplicate_rows + j.blank_rows)}
          </Stat>
          <Stat name="Least time" note="that receivers allow">
            {(j.eta_seconds ?? 0) < 60 ? "under a minute" : duration(j.eta_seconds ?? 0)}
          </Stat>
        </Stats>
        {balance !== undefined && balance < needed && (
          <Warning title="There are too few credits">
            You have {counted(balance, "credit")}; this needs {number(needed)}. Ask your administrator for more, then start the job.
          </Warning>
        )}
        <ColumnRead job={j} />
        {p && <FirstRows preview={p} column={j.email_column ?? ""} />}
        <Text size="sm" c="dimmed">
          Nothing is charged until you start it. A job that is not started within seven days is deleted.
        </Text>
      </Stack>
    </Panel>
  );
}

/** ColumnRead says which column the server reads, and leads back to the choice of another while the page still has the file. */
function ColumnRead({ job: j }: { job: Job }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const source = sourceOf(j.job_id);
  const other = useMutation({
    mutationFn: () => take(api.DELETE("/v1/verify/bulk/{job_id}", { params: { path: { job_id: j.job_id } } })),
    onSuccess: () => {
      choose([source!]);
      void navigate({ to: "/lists" });
      client.removeQueries({ queryKey: ["job", j.job_id] });
      void client.invalidateQueries({ queryKey: ["jobs"] });
    },
  });
  return (
    <Group gap="sm">
      <Text size="sm">
        The addresses are in column <b>{j.email_column}</b>. Delimiter: {delimiterNames[j.delimiter] ?? j.delimiter}; encoding: {j.encoding}; {j.has_header ? "the first row is a header" : "there is no header"}.
      </Text>
      {source && (
        <Button size="compact-sm" variant="default" loading={other.isPending} onClick={() => other.mutate()}>
          Change this
        </Button>
      )}
      {other.error && <Trouble error={other.error} />}
    </Group>
  );
}

/** FirstRows are the first rows as the server read them, with the column of the addresses marked. */
function FirstRows({ preview: p, column }: { preview: NonNullable<Job["preview"]>; column: string }) {
  const at = p.columns.indexOf(column);
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="First rows as the server reads them">
      <Table withTableBorder withColumnBorders fz="sm">
        <Table.Thead>
          <Table.Tr>
            {p.columns.map((name, i) => (
              <Table.Th key={i} bg={i === at ? "var(--info-soft)" : undefined}>
                {name || `Column ${i + 1}`}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {p.rows.map((cells, n) => (
            <Table.Tr key={n}>
              {p.columns.map((_, i) => (
                <Table.Td key={i} bg={i === at ? "var(--info-soft)" : undefined} className="cell">
                  {cells[i] ?? ""}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}

function Going({ job: j }: { job: Job }) {
  const pace = usePace(j, useTimeLeft(j));
  return (
    <section className="panel" aria-label="Progress">
      <Group justify="space-between" mb="xs">
        <Text fw={600}>
          {number(j.processed)} of {number(j.total_rows)} rows
        </Text>
        <Text c="dimmed">{pace}</Text>
      </Group>
      <Progress value={j.percent} size="lg" animated={j.status === "running"} aria-label={`${decimal(j.percent)} % done`} />
      <Stack gap={4} mt="sm">
        {j.pending_retry > 0 && (
          <Text size="sm" c="dimmed">
            {counted(j.pending_retry, "address was deferred by its server", "addresses were deferred by their servers")} and will be retried.
          </Text>
        )}
        {j.status === "paused" && (
          <Text size="sm" c="dimmed">
            A job that is paused for seven days is cancelled.
          </Text>
        )}
      </Stack>
    </section>
  );
}

function Outcome({ job: j }: { job: Job }) {
  const total = statuses.reduce((n, s) => n + j.counts[s], 0);
  const later = Object.entries(j.reasons).reduce((n, [reason, rows]) => n + (deferred.has(reason) ? rows : 0), 0);
  if (total === 0) return <Empty icon="usage" title={isOver(j.status) ? "No rows were verified" : "No verdicts yet"} />;
  return (
    <>
      <Shares counts={j.counts} />
      <Text size="sm" mt="sm">
        {isOver(j.status) ? (
          <>
            <b>{counted(j.credits_used, "credit")}</b> used{j.credits_refunded > 0 && `, ${number(j.credits_refunded)} refunded`}.
          </>
        ) : (
          <>
            <b>{counted(j.credits_reserved, "credit")}</b> reserved; what stays UNKNOWN is refunded.
          </>
        )}
      </Text>
      {later > 0 && isOver(j.status) && <Recheck job={j} />}
    </>
  );
}

function Downloads({ job: j }: { job: Job }) {
  const [format, setFormat] = useState("csv");
  const [compress, setCompress] = useState("none");
  const over = isOver(j.status);
  if (j.status === "failed" || j.status === "expired") return <Text c="dimmed">There is nothing to download.</Text>;
  if (!over && j.processed === 0) return <Text c="dimmed">Rows can be downloaded as soon as the first are verified.</Text>;
  return (
    <Stack gap="sm">
      <Group gap="sm">
        <SegmentedControl size="xs" aria-label="Format" value={format} onChange={setFormat} data={[{ value: "csv", label: "CSV" }, { value: "jsonl", label: "JSON lines" }]} />
        <SegmentedControl size="xs" aria-label="Compression" value={compress} onChange={setCompress} data={[{ value: "none", label: "Plain" }, { value: "gzip", label: "gzip" }, { value: "zstd", label: "zstd" }]} />
      </Group>
      {downloads.map((d) => {
        const rows = d.status.length === 0 ? j.total_rows : d.status.reduce((n, s) => n + j.counts[s], 0);
        return (
          <Button
            key={d.name}
            component="a"
            href={resultsPath(j.job_id, d.status, format, compress, !over)}
            download
            variant={d.name === "Safe to send" ? "filled" : "default"}
            styles={{ label: { flex: 1, textAlign: "left" } }}
            leftSection={<Icon name="download" size={16} />}
            rightSection={
              <Text component="span" size="sm" inherit>
                {over || d.status.length === 0 ? counted(rows, "row") : counted(rows, "address", "addresses")}
              </Text>
            }
          >
            {d.name}
          </Button>
        );
      })}
      <Text size="sm" c="dimmed">
        {over ? (
          <>
            Kept until {j.expires_at && exactly(j.expires_at)}.
          </>
        ) : (
          "Everything has all rows; those not verified yet have empty result columns."
        )}
      </Text>
    </Stack>
  );
}

function Reasons({ job: j }: { job: Job }) {
  const known = useQuery(reasons).data;
  const rows = Object.entries(j.reasons).sort((a, b) => b[1] - a[1]);
  if (rows.length === 0) return null;
  const total = statuses.reduce((n, s) => n + j.counts[s], 0);
  return (
    <Panel title="Reasons">
      <Rows
        label="Reasons"
        rows={rows}
        keyOf={([reason]) => reason}
        columns={[
          { title: "Reason", of: ([reason]) => <span className="mono word">{reason}</span> },
          { title: "Status", of: ([reason]) => known?.has(reason) && <StatusBadge status={known.get(reason)!.status} /> },
          { title: "What it means", kind: "text", of: ([reason]) => known?.get(reason)?.meaning },
          { title: "Rows", kind: "number", of: ([, n]) => number(n) },
          { title: "Share", kind: "number", of: ([, n]) => share(n, total) },
        ]}
      />
      {(j.status === "completed" || j.status === "cancelled") && <ScorePanel job={j} />}
    </Panel>
  );
}

/** ScorePanel is how the scores of a finished job's rows divide. */
function ScorePanel({ job: j }: { job: Job }) {
  const query = useQuery(jobProviders(j.job_id));
  return (
    <>
      <Title order={3} mt="lg" mb="xs">
        Scores
      </Title>
      <Loaded query={query} what="the scores">
        {({ scores }) => <Scores counts={scores} />}
      </Loaded>
    </>
  );
}

/** Recheck verifies the rows without a verdict again, as a job of their own. */
function Recheck({ job: j }: { job: Job }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const again = useMutation({
    mutationFn: () =>
      take(
        api.POST("/v1/verify/bulk/{job_id}/recheck", {
          params: { path: { job_id: j.job_id }, header: { "Idempotency-Key": `recheck ${j.job_id}` } },
          body: { status: ["UNKNOWN"] },
        }),
      ),
    onSuccess: (next) => {
      client.setQueryData(["job", next.job_id], next);
      void client.invalidateQueries({ queryKey: ["jobs"] });
      void client.invalidateQueries({ queryKey: ["credits"] });
      void navigate({ to: "/lists/$jobId", params: { jobId: next.job_id } });
    },
  });
  return (
    <Stack gap="xs" mt="sm" align="flex-start">
      <Text size="sm" c="dimmed">
        {counted(j.counts.UNKNOWN, "row")} could not be determined after retries. UNKNOWN rows are free. Verify them again in a day or two, when receivers may answer otherwise.
      </Text>
      {again.error && <Trouble error={again.error} />}
      <Group gap="xs">
        {j.status === "completed" && (
          <Button size="compact-sm" variant="default" loading={again.isPending} onClick={() => again.mutate()}>
            Verify the UNKNOWN rows again
          </Button>
        )}
        <Button size="compact-sm" variant="default" component="a" href={resultsPath(j.job_id, ["UNKNOWN"], "csv", "none")} download>
          Download them
        </Button>
      </Group>
    </Stack>
  );
}

const attemptColumns: Column<Schemas["CallbackAttempt"]>[] = [
  { title: "Attempt", of: (a) => a.number },
  { title: "At", of: (a) => <Moment at={a.at} /> },
  { title: "Answer", kind: "text", of: (a) => <AttemptAnswer attempt={a} /> },
  { title: "Took", kind: "number", of: (a) => `${number(a.duration_ms)} ms` },
  { title: "Sent", kind: "number", of: (a) => bytes(a.bytes) },
  { title: "Body", of: (a) => (a.link ? "a link" : "the results") },
];

/** AttemptAnswer is the receiver's answer, with the beginning of its body. */
function AttemptAnswer({ attempt: a }: { attempt: Schemas["CallbackAttempt"] }) {
  return (
    <>
      {a.error ?? a.status}
      {a.answer && (
        <Note>
          <span className="mono">{a.answer}</span>
        </Note>
      )}
    </>
  );
}

function Callback({ job: j }: { job: Job }) {
  const client = useQueryClient();
  const query = useQuery(callback(j.job_id, j.callback_status === "pending"));
  const resend = useMutation({
    mutationFn: () => take(api.POST("/v1/verify/bulk/{job_id}/callback", { params: { path: { job_id: j.job_id } } })),
    onSuccess: (c) => {
      client.setQueryData(["callback", j.job_id], c);
      void client.invalidateQueries({ queryKey: ["job", j.job_id], exact: true });
    },
  });
  const sendable = isOver(j.status) && j.status !== "expired";
  return (
    <Panel
      title="Callback"
      actions={
        sendable && (
          <Button size="compact-sm" variant="default" loading={resend.isPending} onClick={() => resend.mutate()}>
            Send it again
          </Button>
        )
      }
    >
      {resend.error && <Trouble error={resend.error} />}
      <Text size="sm" className="mono">
        {j.callback_url}
      </Text>
      {j.callback_headers && (
        <Text size="sm" c="dimmed">
          With your headers {Object.keys(j.callback_headers).join(", ")}
        </Text>
      )}
      <Loaded query={query} what="the attempts">
        {(c) => (
          <>
            <Text size="sm" my="xs" role="status">
              {isOver(j.status) ? <CallbackBadge callback={c} /> : "Will be sent when the job finishes."}
              {c.next_attempt_at && c.status === "pending" && isOver(j.status) && (
                <>
                  ; next attempt <Moment at={c.next_attempt_at} />
                </>
              )}
            </Text>
            {c.attempts.length > 0 && <Rows label="Attempts" columns={attemptColumns} rows={c.attempts.toReversed()} keyOf={(a) => a.number} />}
          </>
        )}
      </Loaded>
    </Panel>
  );
}

/** CallbackBadge says where the delivery stands; one that was refused so far is red, with the receiver's last answer. */
function CallbackBadge({ callback: c }: { callback: Schemas["Callback"] }) {
  const last = c.attempts.at(-1);
  if (c.status !== "pending" || !last) return <Badge tone={c.status === "delivered" ? "good" : c.status === "pending" ? "busy" : "bad"}>{c.status}</Badge>;
  return (
    <>
      <Badge tone="bad">failing</Badge> {counted(last.number, "attempt")}; the last answer: {last.error ?? last.status}
    </>
  );
}

function Details({ job: j }: { job: Job }) {
  const facts: [string, ReactNode][] = [
    ["Job id", <span className="mono" key="id">{j.job_id}</span>],
    ["Column", j.email_column],
    ["Encoding", j.encoding],
    ["Header", j.has_header ? "yes" : "no"],
    ["Started", j.started_at && exactly(j.started_at)],
    ["Took", j.started_at && j.finished_at && duration((Date.parse(j.finished_at) - Date.parse(j.started_at)) / 1000)],
    ["SHA-256 of the zstd CSV", j.results_sha256 && <span className="mono" key="sha">{j.results_sha256}</span>],
  ];
  return (
    <Stack>
      {j.status !== "ready" && (
        <Stats>
          <Stat name="Rows">{number(j.total_rows)}</Stat>
          <Stat name="Distinct addresses">{number(j.unique_addresses)}</Stat>
          <Stat name="Duplicates">{number(j.duplicate_rows)}</Stat>
          <Stat name="Blank">{number(j.blank_rows)}</Stat>
          {isOver(j.status) ? (
            <Stat name="Credits used" note={`${number(j.credits_refunded)} refunded`}>
              {number(j.credits_used)}
            </Stat>
          ) : (
            <Stat name="Credits reserved">{number(j.credits_reserved)}</Stat>
          )}
        </Stats>
      )}
      <Facts list={facts} />
      <Group>
        <CopyButton text={j.job_id} label="Copy the job id" />
      </Group>
    </Stack>
  );
}
