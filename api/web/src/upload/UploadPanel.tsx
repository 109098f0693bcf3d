import { ActionIcon, Button, Group, Progress, Stack, Text } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import type { Job } from "../api/client";
import { words } from "../api/client";
import { recentJobs } from "../api/queries";
import { bytes, duration } from "../format";
import { Again, Icon, To } from "../parts";
import { abort, again, chooseAgain, dismiss, isUnderWay, recover, refusedColumn, resend, resumedFrom, settle, useUploads, verifyAnyway, type Upload } from "./uploads";

/** UploadPanel shows uploads on every page. */
export function UploadPanel() {
  const uploads = useUploads();
  const client = useQueryClient();
  const accepted = (job: Job) => {
    client.setQueryData(["job", job.job_id], job);
    void client.invalidateQueries({ queryKey: ["jobs"] });
    void client.invalidateQueries({ queryKey: ["credits"] });
  };
  useEffect(() => recover(), []);
  const left = uploads.some((u) => u.state === "broken");
  const jobs = useQuery({ ...recentJobs, enabled: left }).data?.jobs;
  useEffect(() => {
    if (left && jobs) settle(jobs);
  }, [left, jobs]);
  if (uploads.length === 0) return null;
  const settled = uploads.filter((u) => !isUnderWay(u));
  function dismissSettled() {
    for (const u of settled) dismiss(u.id);
  }
  return (
    <section className="panel uploads" aria-label="Uploads">
      <Stack gap="md">
        {settled.length > 1 && (
          <Button size="compact-xs" variant="default" style={{ alignSelf: "flex-end" }} onClick={dismissSettled}>
            Dismiss all that ended
          </Button>
        )}
        {uploads.map((u) => (
          <One key={u.id} upload={u} accepted={accepted} />
        ))}
      </Stack>
    </section>
  );
}

/** shownFor is how many milliseconds the note of an accepted list stays. */
const shownFor = 30_000;

function One({ upload: u, accepted }: { upload: Upload; accepted: (job: Job) => void }) {
  const percent = u.size > 0 ? (u.sent / u.size) * 100 : 0;
  const underWay = isUnderWay(u);
  useEffect(() => {
    if (u.state !== "done") return;
    const timer = setTimeout(() => dismiss(u.id), shownFor);
    return () => clearTimeout(timer);
  }, [u.id, u.state]);
  return (
    <div>
      <Group justify="space-between" wrap="nowrap" mb={6}>
        <Text fw={600} size="sm" truncate>
          {u.file}
        </Text>
        {underWay ? (
          <Button size="compact-xs" variant="default" onClick={() => abort(u.id)}>
            Stop
          </Button>
        ) : (
          <ActionIcon size="sm" variant="subtle" color="gray" aria-label={`Dismiss ${u.file}`} onClick={() => dismiss(u.id)}>
            <Icon name="cross" size={14} />
          </ActionIcon>
        )}
      </Group>
      {underWay && (
        <Bar percent={u.state === "checking" ? 100 : percent} file={u.file} words={u.state === "checking" ? "Processing" : `${Math.floor(percent)} %`} />
      )}
      <Text size="xs" c={u.state === "failed" ? undefined : "dimmed"} className={u.state === "failed" ? "ink-bad" : ""} mt={6} role={u.state === "failed" ? "alert" : "status"}>
        {note(u)}
      </Text>
      {u.state === "done" && u.job && (
        <Text size="sm" mt={4}>
          <To to="/lists/$jobId" params={{ jobId: u.job.job_id }}>
            Open the job
          </To>
        </Text>
      )}
      {u.state === "failed" && <Again error={u.error} again={() => again(u.id, accepted)} size="compact-xs" mt={6} />}
      {refusedColumn(u) && <OtherColumn upload={u} accepted={accepted} />}
      {u.state === "broken" && <SelectAgain upload={u} accepted={accepted} />}
    </div>
  );
}

/** Bar is the progress of an upload, in whole per cent for those who hear it. */
function Bar({ percent, file, words }: { percent: number; file: string; words: string }) {
  const heard = { role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.floor(percent), "aria-valuetext": words };
  return (
    <Progress.Root>
      <Progress.Section value={percent} animated={percent >= 100} withAria={false} aria-label={`Upload of ${file}`} {...heard} />
    </Progress.Root>
  );
}

/** OtherColumn offers what can be done when the server saw no addresses in the column. */
function OtherColumn({ upload: u, accepted }: { upload: Upload; accepted: (job: Job) => void }) {
  const navigate = useNavigate();
  return (
    <Group gap="xs" mt={6}>
      <Button
        size="compact-xs"
        onClick={() => {
          chooseAgain(u.id);
          void navigate({ to: "/lists" });
        }}
      >
        Choose another column
      </Button>
      <Button size="compact-xs" variant="default" onClick={() => verifyAnyway(u.id, accepted)}>
        Verify this column anyway
      </Button>
    </Group>
  );
}

/** SelectAgain takes the file of an upload that broke off once more: a browser keeps no file beyond its page. */
function SelectAgain({ upload: u, accepted }: { upload: Upload; accepted: (job: Job) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const [wrong, setWrong] = useState("");
  async function look(file: File) {
    const list = await import("./lists").then(({ asList }) => asList(file)).catch(() => null);
    if (!list || !resend(u.id, list.file, accepted)) setWrong("This is a different file, or it changed. Upload it on the Jobs page.");
  }
  return (
    <>
      <input
        ref={input}
        type="file"
        hidden
        aria-label={`The file ${u.file} again`}
        onChange={(e) => {
          const file = e.currentTarget.files?.[0];
          if (file) void look(file);
        }}
      />
      <Button size="compact-xs" variant="default" mt={6} onClick={() => input.current?.click()}>
        Select the file again
      </Button>
      {wrong && (
        <Text size="xs" className="ink-bad" mt={4} role="alert">
          {wrong}
        </Text>
      )}
    </>
  );
}

function note(u: Upload): string {
  switch (u.state) {
    case "sending": {
      const left = u.rate > 0 ? `, ${duration((u.size - u.sent) / u.rate)} left` : "";
      return `${bytes(u.sent)} of ${bytes(u.size)} sent${left}. You can use other pages, but keep this tab open.`;
    }
    case "checking":
      return "Sent. The server is reading and counting the list…";
    case "waiting":
      return "Paused. The upload continues automatically when the server answers.";
    case "done":
      return u.job?.status === "ready" ? "Uploaded. Nothing is charged until you start the job." : "Upload complete. You can close this page.";
    case "cancelled":
      return "Upload cancelled. Nothing was charged.";
    case "failed":
      return refusedColumn(u) ? `The list was not accepted, and nothing was charged: ${refusedColumn(u)}.` : words(u.error);
    case "broken":
      return u.sent >= u.size
        ? "The upload had finished when you left. The job will appear if the server accepted it; otherwise select the file again."
        : `Upload interrupted at ${Math.floor((u.sent / u.size) * 100)} %. Nothing was charged. Select the file again to ${u.size < resumedFrom ? "restart" : "continue"} with the same options.`;
  }
}
