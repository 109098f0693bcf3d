//go:build way

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/cover"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
	"probity/store"
	"probity/tests/harness"
)

// A step is a named function of wayPackages of which at least minStatements run: shorter ones are read in passing, and what other
// packages do is told by the name of what is called. (With six statements the count is that of a reader who walked the way by hand.)
const minStatements = 6

var wayPackages = []string{"api", "api/httpd", "coordinator", "coordinator/chunks", "coordinator/dispatch", "coordinator/ingest", "coordinator/jobdir", "coordinator/progress", "coordinator/resultfile", "coordinator/results", "coordinator/split", "prober", "prober/addresslimit", "prober/admission", "prober/budget", "prober/conn", "prober/hosthealth", "prober/hostqueue", "prober/readyqueue", "prober/rtt", "prober/source", "prober/trace"}

// The most steps that an address may pass, from the request to its answer.
const (
	maxWayOfSingle = 60
	maxWayOfRow    = 60
	maxWayOfJob    = 130
)

// TestWay counts the named functions that one address passes, which was never seen before and whose receiver is met for the
// first time: in a single call, and as a row of a job. What runs once for the job, however many rows it has, is counted apart.
// The server is built to count how often each of its blocks runs.
func TestWay(t *testing.T) {
	w := newWay(t)
	w.single(w.next()) // one-time work of a server does not count
	w.job(w.next())

	const more = 8
	single := w.alwaysRuns(func() { w.single(w.next()) })
	job := w.alwaysRuns(func() { w.job(w.next()) })
	many := w.alwaysRuns(func() {
		var list []string
		for range 1 + more {
			list = append(list, w.next())
		}
		w.job(list...)
	})
	row := map[string]function{}
	for name, f := range many {
		if f.calls >= job[name].calls+more {
			row[name] = f
		}
	}
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	for _, c := range []struct {
		name, heading string
		ran           map[string]function
		most          int
	}{
		{"single call", "## The way of a single call\n", single, maxWayOfSingle},
		{"row", "", row, maxWayOfRow},
		{"job of one row", "## The way of a row of a job\n", job, maxWayOfJob},
	} {
		var steps []string
		for name, f := range c.ran {
			if folder, _, _ := strings.Cut(name, "."); f.statements >= minStatements && slices.Contains(wayPackages, folder) {
				steps = append(steps, name)
			}
		}
		slices.Sort(steps)
		t.Logf("%s: %d functions:\n%s", c.name, len(steps), strings.Join(steps, "\n"))
		assert.LessOrEqual(t, len(steps), c.most, c.name)
		if c.heading == "" {
			continue
		}
		_, section, found := strings.Cut(string(page), c.heading)
		require.True(t, found, c.heading)
		section, _, _ = strings.Cut(section, "\n## ")
		section, _, _ = strings.Cut(section, "\nWith a fleet")
		for _, hop := range hopPattern.FindAllStringSubmatch(section, -1) {
			name := hop[1] + "." + strings.Trim(hop[2], "()")
			if name = strings.ReplaceAll(name, ").", "."); !slices.Contains(otherCases, name) {
				assert.Contains(t, c.ran, name, "a hop of docs/architecture.md that is not on the way")
			}
		}
	}
}

// hopPattern is a hop of docs/architecture.md, which says itself how a hop is written.
var hopPattern = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.((?:\\([A-Za-z]\\w*\\)\\.)?[A-Za-z]\\w*)`")

// otherCases are hops of the page that this address does not pass.
var otherCases = []string{
	"engine/lists.Set.Suggest", "prober/readyqueue.sharedConnections.resolveHosts", // of a domain without mail servers; of a host that a provider's rules name
	"coordinator/jobfiles.UploadWriter.AddDuplicate", "coordinator/split.jobSplit.answerRow", // of a duplicate; of a row that needs no probe
	"coordinator.runningJob.replay", "coordinator/resultfile.Files.RemakeAndCommit", // after a restart; results that were removed
	"coordinator/resultfile.Files.Results",                                                                           // of a download
	"coordinator/fleet.Fleet.Verify", "coordinator/fleet.batchSplitter.assign", "coordinator/fleet.Fleet.verifyPart", // with a fleet
	"coordinator/fleet.resultCollector.emitPart", "prober/wire/stream.Client.Verify", "prober/wire/stream.pendingBatch.follow",
	"prober/wire/stream.serverStream.startBatch", "prober/wire/stream.runningBatch.verify", "prober/wire/stream.runningBatch.post",
}

type way struct {
	*testing.T
	server, admin string // URLs
	key           string
	data          string   // folder
	addresses     []string // at domains and hosts of their own, all of which exist
}

// newWay has a server over an empty data folder, with a simulated internet.
func newWay(t *testing.T) *way {
	p := &serviceEnv{processCtx: t.Context(), ctx: t.Context(), world: world.New(world.Config{Seed: 1}), internet: startInternet(t.Context(), t),
		overrides: filepath.Join(t.TempDir(), "providers.toml")}
	harness.WriteOutput(t.Context(), t, p.overrides, "sim", "providers", "--speedup", strconv.Itoa(systemSpeedup))
	program, data := filepath.Join(t.TempDir(), "probity"), t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "way", "-cover", "-covermode=atomic", "-coverpkg=probity/...", "-o", program, ".")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	w := &way{T: t, data: data}
	withStoppedStore(t, data, func(s *store.Store) {
		user, _, err := s.AddUser(t.Context(), store.NewUser{Email: "ann@example.com", Credits: 1000}, "test", time.Now())
		require.NoError(t, err)
		w.key, _, err = s.CreateKey(user.ID, store.NewKey{Name: "way"}, "test", time.Now())
		require.NoError(t, err)
	})
	server := exec.Command(program, p.serveArgs(data, "127.0.0.2")...)
	server.Env = append(os.Environ(), "GOCOVERDIR="+t.TempDir())
	lines, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Signal(syscall.SIGTERM))
		require.NoError(t, server.Wait())
	})
	in := bufio.NewScanner(lines)
	for in.Scan() && w.admin == "" {
		if found := listenLine.FindStringSubmatch(in.Text()); found != nil {
			w.server, w.admin = "http://"+found[1], "http://"+found[2]
		}
	}
	require.NotEmpty(t, w.admin, "the server does not listen")
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	seen := map[string]bool{}
	for _, text := range p.world.Addresses("postfix", 20000) {
		local, domain, _ := strings.Cut(text, "@")
		d, _ := p.world.Domain(domain)
		if host := d.MX[0].Host; !seen[host] && p.world.Mailbox(domain, local) == persona.Present {
			seen[host] = true
			w.addresses = append(w.addresses, text)
		}
	}
	return w
}

var listenLine = regexp.MustCompile(`msg=serving public=(\S+) admin=(\S+)`)

func (w *way) next() string {
	require.NotEmpty(w, w.addresses)
	text := w.addresses[0]
	w.addresses = w.addresses[1:]
	return text
}

func (w *way) call(method, path, kind, body string) string {
	r, err := http.NewRequestWithContext(w.Context(), method, w.server+path, strings.NewReader(body))
	require.NoError(w, err)
	r.Header.Set("Authorization", "Bearer "+w.key)
	r.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(w, err)
	defer resp.Body.Close()
	var answer bytes.Buffer
	_, err = answer.ReadFrom(resp.Body)
	require.NoError(w, err)
	require.Less(w, resp.StatusCode, 300, answer.String())
	return answer.String()
}

func (w *way) single(text string) {
	require.Contains(w, w.call(http.MethodPost, "/v1/verify/single", "application/json", fmt.Sprintf("{%q: %q}", "email", text)), `"VALID"`)
}

// job verifies a list. It asks for the job when its results are there, not meanwhile, as each question is traced, too.
func (w *way) job(list ...string) {
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	file, err := parts.CreateFormFile("file", "list.csv")
	require.NoError(w, err)
	_, err = fmt.Fprintf(file, "email\n%s\n", strings.Join(list, "\n"))
	require.NoError(w, err)
	require.NoError(w, parts.Close())
	record := w.call(http.MethodPost, "/v1/verify/bulk", parts.FormDataContentType(), form.String())
	_, id, found := strings.Cut(record, `"job_id":"`)
	require.True(w, found, record)
	id, _, _ = strings.Cut(id, `"`)
	require.Eventually(w, func() bool {
		answers, err := filepath.Glob(filepath.Join(w.data, "jobs", id, "answers*"))
		return err == nil && len(answers) > 0
	}, time.Minute, 10*time.Millisecond)
	require.Eventually(w, func() bool {
		return strings.Contains(w.call(http.MethodGet, "/v1/verify/bulk/"+id, "", ""), `"completed"`)
	}, time.Minute, 100*time.Millisecond)
}

// function is what ran of a function.
type function struct {
	statements int // that ran at least once
	calls      int
}

// alwaysRuns gives the functions that run each time that work is done, so that what still runs of something before does not count.
func (w *way) alwaysRuns(work func()) map[string]function {
	always := w.trace(work)
	for range 2 {
		ran := w.trace(work)
		for name, f := range always {
			if again, ok := ran[name]; ok {
				always[name] = function{min(f.statements, again.statements), min(f.calls, again.calls)}
			} else {
				delete(always, name)
			}
		}
	}
	return always
}

// trace gives the functions that ran meanwhile.
func (w *way) trace(work func()) map[string]function {
	dir := w.TempDir()
	w.coverage("clear", dir)
	work()
	w.coverage("write", dir)
	text := filepath.Join(dir, "profile")
	out, err := exec.CommandContext(w.Context(), "go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+text).CombinedOutput()
	require.NoError(w, err, string(out))
	profiles, err := cover.ParseProfiles(text)
	require.NoError(w, err)
	ran := map[string]function{}
	for _, p := range profiles {
		addFunctions(w.T, p, ran)
	}
	return ran
}

func (w *way) coverage(what, dir string) {
	resp, err := http.Post(w.admin+"/debug/coverage/"+what+"?dir="+dir, "", nil)
	require.NoError(w, err)
	defer resp.Body.Close()
	require.Equal(w, http.StatusOK, resp.StatusCode)
}

// addFunctions adds the functions of a file that ran.
func addFunctions(t *testing.T, p *cover.Profile, ran map[string]function) {
	path := strings.TrimPrefix(p.FileName, "probity/")
	file := filepath.Join("..", "..", path)
	if strings.HasSuffix(path, ".pb.go") {
		return
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, 0)
	require.NoError(t, err)
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		from, to := fset.Position(f.Body.Pos()), fset.Position(f.Body.End())
		ranHere, first := function{}, token.Position{}
		for _, b := range p.Blocks {
			inside := (b.StartLine > from.Line || b.StartLine == from.Line && b.StartCol >= from.Column) &&
				(b.EndLine < to.Line || b.EndLine == to.Line && b.EndCol <= to.Column)
			if !inside || b.Count == 0 {
				continue
			}
			ranHere.statements += b.NumStmt
			if first.Line == 0 || b.StartLine < first.Line || b.StartLine == first.Line && b.StartCol < first.Column {
				first, ranHere.calls = token.Position{Line: b.StartLine, Column: b.StartCol}, b.Count
			}
		}
		if ranHere.statements > 0 {
			name := f.Name.Name
			if f.Recv != nil {
				name = recvName(f.Recv.List[0].Type) + "." + name
			}
			ran[filepath.Dir(path)+"."+name] = ranHere
		}
	}
}

func recvName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return recvName(e.X)
	case *ast.IndexExpr:
		return recvName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
