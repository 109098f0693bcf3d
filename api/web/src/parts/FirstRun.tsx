import { Button, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { callbacks, keys, owner, recentJobs, usage } from "../api/queries";
import { choose } from "../upload/uploads";
import { Icon, Panel, To } from "./index";

// A list with something of each kind. Most of it needs no mail server, so it is done in seconds.
const sample = `name,email,city
Ann Lee,ann.lee@example.com,Leeds
Bo Berg,bo.berg@gmial.com,Bergen
Cem Kaya,cem.kaya@example.invalid,Izmir
Dana Ruiz,dana.ruiz@,Sevilla
Eve Stone,eve stone@example.org,Derby
Finn Ryan,info@example.net,Cork
Gil Roy,gil.roy@mailinator.com,Lyon
Hana Sato,hana.sato@example.com,Nara
Ann Lee,ANN.LEE@example.com,Leeds
`;

interface Step {
  title: string;
  done: boolean;
  how: ReactNode;
}

/** mostJobs is how many jobs an account may have for which first steps are shown. */
const mostJobs = 3;

/** useFirstSteps are what a new account has not yet tried; null where it is not new, hid them, or has done all. */
export function useFirstSteps(): { steps: Step[]; hide: () => void } | null {
  const place = `probity.hidden.${owner() ?? ""}`;
  const [hidden, setHidden] = useState(() => kept(place));
  const days = useQuery({ ...usage(30), enabled: !hidden });
  const jobs = useQuery({ ...recentJobs, enabled: !hidden });
  const few = jobs.data !== undefined && jobs.data.jobs.length <= mostJobs;
  const made = useQuery({ ...keys, enabled: !hidden && few });
  const sent = useQuery({ ...callbacks({ limit: 1 }), enabled: !hidden && few });
  const navigate = useNavigate();
  if (hidden || !few || !days.data || !made.data || !sent.data) return null;
  function takeSample() {
    choose([{ file: new File([sample], "sample.csv", { type: "text/csv" }), note: "A sample of nine rows, with something of each kind." }]);
    void navigate({ to: "/lists" });
  }
  const steps: Step[] = [
    { title: "Verify an address", done: days.data.days.some((d) => d.singles > 0), how: <><To to="/verify">Check one</To> and see the reply behind the verdict.</> },
    {
      title: "Upload a list",
      done: jobs.data.jobs.some((j) => j.status !== "ready"),
      how: (
        <>
          <To to="/lists">Upload a file</To>, or{" "}
          <Button size="compact-sm" variant="default" onClick={takeSample}>
            use a sample list
          </Button>
        </>
      ),
    },
    { title: "Create an API key", done: made.data.length > 0, how: <>A program needs <To to="/settings/keys">a key</To>; a test key is free.</> },
    { title: "Try a callback", done: sent.data.callbacks.length > 0, how: <><To to="/settings/callbacks">Send a test</To> to your receiver; see it in the <To to="/logs">logs</To>.</> },
  ];
  if (steps.every((s) => s.done)) return null;
  return {
    steps,
    hide: () => {
      setHidden(true);
      keep(place);
    },
  };
}

function kept(place: string): boolean {
  try {
    return localStorage.getItem(place) !== null;
  } catch {
    return false; // a browser that keeps nothing
  }
}

function keep(place: string) {
  try {
    localStorage.setItem(place, "1");
  } catch {
    // then they are hidden until the page is opened again
  }
}

/** FirstRun is a list of first steps. */
export function FirstRun({ steps, hide }: { steps: Step[]; hide: () => void }) {
  return (
    <Panel
      title="Get started"
      actions={
        <Button size="compact-sm" variant="default" onClick={hide}>
          Hide this
        </Button>
      }
    >
      <Stack component="ol" gap="sm" className="steps">
        {steps.map((s) => (
          <li key={s.title}>
            <Group gap="sm" wrap="nowrap" align="flex-start">
              <span className={s.done ? "step ink-good" : "step"}>{s.done && <Icon name="check" size={16} />}</span>
              <div>
                <Text fw={600}>
                  {s.title}
                  {s.done && <span className="unseen">, done</span>}
                </Text>
                {!s.done && (
                  <Text size="sm" component="div">
                    {s.how}
                  </Text>
                )}
              </div>
            </Group>
          </li>
        ))}
      </Stack>
    </Panel>
  );
}
