import { Group, Select, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Schemas } from "../api/client";
import { acts } from "../api/queries";
import { exactly } from "../format";
import { Empty, Icon, Loaded, Moment, More, Name, Note, Page, Panel, Rows, Trouble, type Column } from "../parts";

type Act = Schemas["Act"];

/** said is an act in words; one that is not here is shown as it was recorded. */
export const said: Readonly<Record<string, string>> = {
  "sign in": "Admin signed in",
  "user add": "Account added",
  "user disable": "Account disabled",
  "user enable": "Account enabled",
  "user limits": "Limits set",
  "reset link": "Reset link made",
  "user password": "Password changed",
  "totp on": "Authenticator app on",
  "totp off": "Authenticator app off",
  "recovery code": "Recovery code used",
  "key create": "API key created",
  "key revoke": "API key revoked",
  grant: "Credits granted",
  "callback secret": "Callback secret changed",
  "receipt key": "Receipt key made",
  suppress: "Suppression added",
  unsuppress: "Suppression removed",
  erase: "Address erased",
  release: "Quarantine ended",
  backup: "Backup taken",
  download: "Results downloaded",
};

/** noted is the note of an act without the ids that only machines read, and without what stands beside it. */
export const noted = (a: Pick<Act, "action" | "note" | "about">) => (a.action.startsWith("key ") || a.action === "download" ? a.note.replace(/^\S+ ?/, "") : a.note.replace(a.about, "").trim());

const columns: Column<Act>[] = [
  { title: "Action", kind: "name", of: (a) => <b>{said[a.action] ?? a.action}</b> },
  { title: "When", kind: "word", of: (a) => <When act={a} /> },
  { title: "Who", kind: "name", of: (a) => <Name text={a.by} /> },
  { title: "From", kind: "word", of: (a) => a.from },
  { title: "On what", kind: "name", of: (a) => (a.action === "sign in" ? null : <Name text={a.about || a.target} />) },
  { title: "Note", kind: "text", of: noted },
];

function When({ act: a }: { act: Act }) {
  return (
    <>
      <Moment at={a.at} />
      <Note>{exactly(a.at)}</Note>
    </>
  );
}

/** Audit is who did what to accounts, keys and lists. */
export function Audit() {
  const [typed, setTyped] = useState("");
  const [by] = useDebouncedValue(typed.trim(), 300);
  const [action, setAction] = useState("");
  const query = useInfiniteQuery(acts(by, action));
  const list = query.data?.pages.flatMap((p) => p.acts);
  return (
    <Page title="Audit" note="Admin actions, changes to accounts and keys, and downloads of results. Only downloads expire, other entries are never deleted; verified addresses are never logged.">
      <Panel>
        <Group className="asks" align="flex-end" gap="sm" mb="sm">
          <TextInput label="Who" placeholder="Name or e-mail" value={typed} onChange={(e) => setTyped(e.currentTarget.value)} leftSection={<Icon name="search" size={16} />} w="18rem" maw="100%" />
          <Select
            label="Action"
            searchable
            data={[{ value: "", label: "Any action but downloads" }, ...Object.entries(said).map(([value, label]) => ({ value, label }))]}
            value={action}
            onChange={(v) => setAction(v ?? "")}
            allowDeselect={false}
            w="15rem"
            maw="100%"
          />
        </Group>
        <Loaded query={{ ...query, data: list }} what="the audit log">
          {(found) =>
            found.length === 0 && !query.hasNextPage ? (
              <Empty icon="audit" title={by || action ? "No matching entries" : "No entries yet"}>
                {by || action ? "Choose another action or a shorter name. Downloads are listed under their own action." : "Changes to accounts, keys, credits, limits, suppressions, quarantines and backups will appear here. Downloads of results are listed under their own action."}
              </Empty>
            ) : (
              <Rows label="Actions" columns={columns} rows={found} keyOf={(a, i) => a.at + i} />
            )
          }
        </Loaded>
        {query.error && list && <Trouble error={query.error} />}
        {query.hasNextPage && (
          <More loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            Show older
          </More>
        )}
      </Panel>
    </Page>
  );
}
