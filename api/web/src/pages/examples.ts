export interface Example {
  title: string;
  /** What stands between backticks is set as code. */
  note: string;
  code: { language: string; label: string; text: string }[];
}

/** variableOf is the environment variable that examples read a key of this name from. */
export function variableOf(name: string): string {
  const word = name
    .normalize("NFKD")
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .toUpperCase();
  return word ? `PROBITY_KEY_${word}` : "PROBITY_KEY";
}

/** examples are the calls that most programs need, for the service at base and the key in a variable. */
export function examples(base: string, variable: string): Example[] {
  return [single(base, variable), upload(base, variable), download(base, variable)];
}

const languages = (curl: string, go: string, python: string, javascript: string) => [
  { language: "curl", label: "curl", text: curl },
  { language: "go", label: "Go", text: go },
  { language: "python", label: "Python", text: python },
  { language: "javascript", label: "JavaScript", text: javascript },
];

function single(base: string, key: string): Example {
  return {
    title: "Verify one address",
    note: "Instant for cached addresses, 1 to 3 seconds otherwise.",
    code: languages(
      `curl ${base}/v1/verify/single \\
  -H "Authorization: Bearer $${key}" \\
  -H 'Content-Type: application/json' \\
  -d '{"email": "ann@example.com"}'`,
      `body := strings.NewReader(\`{"email": "ann@example.com"}\`)
req, err := http.NewRequest("POST", "${base}/v1/verify/single", body)
if err != nil {
	return err
}
req.Header.Set("Authorization", "Bearer "+os.Getenv("${key}"))
req.Header.Set("Content-Type", "application/json")
res, err := http.DefaultClient.Do(req)
if err != nil {
	return err
}
defer res.Body.Close()
var verdict struct {
	Status string  \`json:"status"\`
	Score  int     \`json:"score"\`
	Reason *string \`json:"reason"\`
	Detail string  \`json:"detail"\` // of an error
}
if err := json.NewDecoder(res.Body).Decode(&verdict); err != nil {
	return err
}
fmt.Println(verdict.Status, verdict.Score)`,
      `import os, requests

answer = requests.post(
    "${base}/v1/verify/single",
    headers={"Authorization": "Bearer " + os.environ["${key}"]},
    json={"email": "ann@example.com"},
    timeout=40,
)
answer.raise_for_status()
print(answer.json()["status"])`,
      `const answer = await fetch("${base}/v1/verify/single", {
  method: "POST",
  headers: {
    Authorization: \`Bearer \${process.env.${key}}\`,
    "Content-Type": "application/json",
  },
  body: JSON.stringify({ email: "ann@example.com" }),
});
if (!answer.ok) throw new Error((await answer.json()).detail);
console.log((await answer.json()).status);`,
    ),
  };
}

function upload(base: string, key: string): Example {
  return {
    title: "Upload a list",
    note: "The answer is the job's record. Get it with `?wait=30`, which holds the answer until the state changes, or send a `callback_url`.",
    code: languages(
      `curl ${base}/v1/verify/bulk \\
  -H "Authorization: Bearer $${key}" \\
  -F callback_url=https://example.com/hook \\
  -F file=@list.csv`,
      `file, err := os.Open("list.csv")
if err != nil {
	return err
}
defer file.Close()
r, w := io.Pipe()
form := multipart.NewWriter(w)
go func() {
	part, err := form.CreateFormFile("file", "list.csv")
	if err == nil {
		_, err = io.Copy(part, file)
	}
	w.CloseWithError(errors.Join(err, form.Close()))
}()
req, err := http.NewRequest("POST", "${base}/v1/verify/bulk", r)
if err != nil {
	return err
}
req.Header.Set("Authorization", "Bearer "+os.Getenv("${key}"))
req.Header.Set("Content-Type", form.FormDataContentType())
res, err := http.DefaultClient.Do(req)`,
      `import os, requests

with open("list.csv", "rb") as file:
    answer = requests.post(
        "${base}/v1/verify/bulk",
        headers={"Authorization": "Bearer " + os.environ["${key}"]},
        files={"file": file},
    )
answer.raise_for_status()
print(answer.json()["job_id"])`,
      `import { openAsBlob } from "node:fs";

const form = new FormData();
form.set("file", await openAsBlob("list.csv"), "list.csv");
const answer = await fetch("${base}/v1/verify/bulk", {
  method: "POST",
  headers: { Authorization: \`Bearer \${process.env.${key}}\` },
  body: form,
});
if (!answer.ok) throw new Error((await answer.json()).detail);
console.log((await answer.json()).job_id);`,
    ),
  };
}

function download(base: string, key: string): Example {
  return {
    title: "Download the results",
    note: "What comes is chosen with `status`, `format` (csv, jsonl) and `compress` (none, gzip, zstd). Rows keep their order and all their columns.",
    code: languages(
      `curl "${base}/v1/verify/bulk/$JOB_ID/results?status=VALID&compress=gzip" \\
  -H "Authorization: Bearer $${key}" \\
  -o safe-to-send.csv.gz`,
      `req, err := http.NewRequest("GET", "${base}/v1/verify/bulk/"+jobID+"/results?status=VALID", nil)
if err != nil {
	return err
}
req.Header.Set("Authorization", "Bearer "+os.Getenv("${key}"))
res, err := http.DefaultClient.Do(req)
if err != nil {
	return err
}
defer res.Body.Close()
_, err = io.Copy(out, res.Body)`,
      `import os, requests

with requests.get(
    f"${base}/v1/verify/bulk/{job_id}/results?status=VALID",
    headers={"Authorization": "Bearer " + os.environ["${key}"]},
    stream=True,
) as answer:
    answer.raise_for_status()
    with open("safe-to-send.csv", "wb") as out:
        for piece in answer.iter_content(1 << 20):
            out.write(piece)`,
      `import { createWriteStream } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

const answer = await fetch(\`${base}/v1/verify/bulk/\${jobId}/results?status=VALID\`, {
  headers: { Authorization: \`Bearer \${process.env.${key}}\` },
});
if (!answer.ok) throw new Error((await answer.json()).detail);
await pipeline(Readable.fromWeb(answer.body), createWriteStream("safe-to-send.csv"));`,
    ),
  };
}
