package service_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/internal/detector"
	"probity/tests/harness"
)

// walkedDocument is one whose shell commands are run, in their order and in one shell.
type walkedDocument struct {
	file string
	left []leftToReader
}

// leftToReader is what a document says in words: commands before the first one that begins with a text.
type leftToReader struct{ before, commands string }

var walkedDocuments = []walkedDocument{
	{"../../README.md", []leftToReader{
		{"curl -s localhost:8080/v1/verify/single", "curl -s localhost:8080/healthz\nKEY=$(cat first-key)\n"}}},
	{"../../docs/quickstart.md", nil},
	{"../../docs/api.md", []leftToReader{
		{"KEY=", "probity user add admin@localhost.localdomain --role admin --credits 10000 --data ./probity-data\n"},
		{"curl -s localhost:8080/v1/verify/single", "probity serve --data ./probity-data &\n"},
		{`curl -s "localhost:8080/v1/verify/bulk/$JOB?wait=30"`, "set_job\n"},
		{`curl -s "localhost:8080/v1/verify/bulk/$JOB/results`, "await_job\n"},
		{"curl -s localhost:8080/v1/receipts", "printf 'email\\nann@example.org\\n' > ann.csv\n" +
			`curl -s localhost:8080/v1/verify/bulk -H "Authorization: Bearer $KEY" -F file=@ann.csv -F details=true` +
			"\nset_job\nawait_job\n"},
		{"curl -s localhost:8080/v1/feedback",
			"printf 'email,outcome,at\\nbo@example.org,bounced_hard,2026-03-01T12:00:05Z\\n' > bounces.csv\n"},
		{`curl -s "localhost:8080/v1/compare`,
			"printf 'email,result\\nbo@example.org,deliverable\\n' > theirs.csv\n"}}},
	{"../../docs/fleet.md", nil},
}

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// elsewhere matches the commands that do not run on a simulated internet alone: those that build, that run on other
// machines, and that check this machine's way to the real internet.
var elsewhere = regexp.MustCompile(`(?m)^(make|CGO_ENABLED=0 go build|systemctl|chown|mv|\(cd /etc/probity|` +
	`(bin/)?probity (demo|sim serve|doctor|job why ID|cluster))\b.*\n`)

// endlessServer matches a server that a reader leaves running in a terminal of its own.
var endlessServer = regexp.MustCompile(`(?m)^(bin/probity serve [^&\n]*)$`)

// walkDeadline bounds the commands of one document.
const walkDeadline = 3 * time.Minute

// beforeCommands makes curl wait for a server that starts, fail when it is refused, and keep the answers, of which the
// last has the job.
const beforeCommands = `set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
curl() {
  command curl --retry 60 --retry-connrefused --retry-delay 1 --max-time 60 --fail-with-body "$@" | tee -a answers
}
set_job() {
  JOB=$(sed -n 's/.*"job_id": *"\([0-9a-f]*\)".*/\1/p' answers | tail -n 1)
}
await_job() {
  until curl -s "localhost:8080/v1/verify/bulk/$JOB?wait=30" -H "Authorization: Bearer $KEY" |
    grep '"status":"completed"'; do :; done
}
probity sim list --rows 300 > list.csv
`

// script is the document's commands for a simulated internet and a server at an address of its own.
func (d walkedDocument) script(t *testing.T, world internet, server string) string {
	text, err := os.ReadFile(d.file)
	require.NoError(t, err)
	var commands strings.Builder
	for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
		commands.WriteString(block[1])
	}
	script := strings.ReplaceAll(commands.String(), "\\\n", " ")
	script = elsewhere.ReplaceAllString(script, "")
	script = endlessServer.ReplaceAllString(script, "$1 &")
	for _, l := range d.left {
		require.Contains(t, script, l.before, "the command is no longer in the document")
		script = strings.Replace(script, l.before, l.commands+l.before, 1)
	}
	require.Contains(t, script, "probity ")
	return strings.NewReplacer("bin/probity", "probity", "192.0.2.10", "127.0.0.1",
		"localhost:8080", server, "/etc/probity", "./certs", "127.0.0.1:10053", world.dns,
		"--smtp-port 2525", "--smtp-port "+world.smtp, "--rows 20000", "--rows 300").Replace(beforeCommands + script)
}

// TestCommandsOfDocumentsRun runs the shell commands of the documents that new users follow, from their Markdown. Names
// and ports of machines are replaced, and long lists are shortened.
func TestCommandsOfDocumentsRun(t *testing.T) {
	detector.Spare(t)
	if testing.Short() {
		t.Skip("it starts a simulated internet and servers; run without -short")
	}
	bash, err := exec.LookPath("bash")
	if err == nil {
		_, err = exec.LookPath("curl")
	}
	if err != nil {
		t.Skip("the commands need bash and curl: ", err)
	}
	world := startInternet(t.Context(), t)
	for _, d := range walkedDocuments {
		t.Run(filepath.Base(d.file), func(t *testing.T) {
			dir, server := t.TempDir(), freeAddress(t)
			overrides := filepath.Join(dir, "providers.toml")
			harness.WriteOutput(t.Context(), t, overrides, "sim", "providers", "--speedup", "36000")
			ctx, cancel := context.WithTimeout(t.Context(), walkDeadline)
			defer cancel()
			commands := harness.Command(ctx)
			commands.WaitDelay = time.Second
			commands.Path, commands.Args = bash, []string{"bash", "-xc", d.script(t, world, server)}
			commands.Dir = dir
			commands.Env = append(commands.Env, "PROBITY_DNS="+world.dns, "PROBITY_SMTP_PORT="+world.smtp,
				"PROBITY_ALLOW_PRIVATE_TARGETS=true", "PROBITY_PROVIDERS="+overrides, "PROBITY_LISTEN="+server,
				"PROBITY_ADMIN_LISTEN="+freeAddress(t), "PROBITY_FIRST_KEY=first-key")
			said, err := commands.CombinedOutput()
			require.NoError(t, err, "%s", said)
		})
	}
}

// freeAddress returns an address of loopback at which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}
