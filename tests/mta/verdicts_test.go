//go:build linux

package mta

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

// verifyTimeout bounds a list. The longest wait of a configuration is a pause of two minutes.
const verifyTimeout = 200 * time.Second

// setup is a server with one of its configurations, and the true verdicts of its addresses.
type setup struct {
	server, configuration string
	system                string            // folder of the cache that it runs on
	programs              []string          // of the cache's bin, that it needs there
	files                 map[string]string // configuration, by path
	prepare               []string          // commands before it starts
	run                   []string          // commands that are the server
	logs                  string            // file that the server writes a log to; empty: its output is all
	domains               []string          // each has the server as its MX host
	records               []string          // of the DNS, other than those
	sender                string            // --mail-from
	schedule              string            // --retry-schedule
	singles, list         []row             // probed in this order
}

// row is an address and its right verdict, "STATUS reason".
type row struct {
	address, want string
	forced        string // why no verifier can know more, if the verdict is UNKNOWN
}

func rows(want string, addresses ...string) (rs []row) {
	for _, a := range addresses {
		rs = append(rs, row{address: a, want: want})
	}
	return rs
}

func forced(why, want string, addresses ...string) []row {
	rs := rows(want, addresses...)
	for i := range rs {
		rs[i].forced = why
	}
	return rs
}

func join(parts ...[]row) (all []row) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func allSetups() []setup {
	var all []setup
	for _, of := range []func() []setup{postfix, dovecot, exim, openSMTPD, chasquid, maddy} {
		all = append(all, of()...)
	}
	return all
}

// verifySetup starts the server and compares the verdicts of its addresses with the right ones.
func (l *testNetwork) verifySetup(t *testing.T, s setup, r *result) {
	r.tried = true
	m := l.newMachine(t, s.system)
	host := "mx." + s.domains[0]
	l.nameServer.addHost(t, host, m.address)
	for _, d := range s.domains {
		l.nameServer.addDomain(t, d, host)
	}
	for _, line := range s.records {
		l.nameServer.addRecord(t, line)
	}
	for _, p := range s.programs {
		l.mountProgram(t, m, p)
	}
	for path, content := range s.files {
		m.write(t, path, content)
	}
	t.Cleanup(func() { m.showLog(t, s.logs) })
	for _, line := range s.prepare {
		m.run(t, line)
	}
	for _, line := range s.run {
		m.start(t, line)
	}
	m.waitForBanner(t)

	start := time.Now()
	r.count(t, s.singles, l.verifySingles(t, s))
	r.count(t, s.list, l.verifyList(t, s))
	r.took = time.Since(start)
}

// showLog prints the end of the server's log if the test failed.
func (m *machine) showLog(t *testing.T, file string) {
	if !t.Failed() {
		return
	}
	files := []string{m.log}
	if file != "" {
		files = append(files, filepath.Join(m.root, file))
	}
	for _, f := range files {
		output, err := os.ReadFile(f)
		if err != nil {
			output = []byte(err.Error())
		}
		t.Logf("the end of %s:\n%s", filepath.Base(f), output[max(0, len(output)-6000):])
	}
}

func (l *testNetwork) probity(t *testing.T, s setup, args ...string) []byte {
	t.Helper()
	args = append([]string{"verify"}, args...)
	args = append(args, "--dns", proberAddress+":53", "--egress", proberAddress+"=mx.prober.example", "--mail-from",
		cmp.Or(s.sender, goodSender),
		"--allow-private-targets", "--retry-schedule", s.schedule)
	ctx, cancel := context.WithTimeout(t.Context(), verifyTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(l.cache, "bin", "probity"), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "probity %s: %s", strings.Join(args, " "), errs.String())
	return out.Bytes()
}

// verdict is the verdict of an address; why is for people.
type verdict struct{ outcome, why string }

func (l *testNetwork) verifySingles(t *testing.T, s setup) map[string]verdict {
	got := map[string]verdict{}
	if len(s.singles) == 0 {
		return got
	}
	args := []string{"--json", "--details", "--timeout", "20s"}
	for _, r := range s.singles {
		args = append(args, r.address)
	}
	for line := range bytes.Lines(l.probity(t, s, args...)) {
		var v struct {
			Email, Status, Reason string
			Details               struct {
				SMTPMessage string `json:"smtp_message"`
				Rule        string
			}
		}
		require.NoError(t, json.Unmarshal(line, &v))
		got[v.Email] = verdict{strings.TrimSpace(v.Status + " " + v.Reason),
			v.Details.Rule + ": " + v.Details.SMTPMessage}
	}
	return got
}

func (l *testNetwork) verifyList(t *testing.T, s setup) map[string]verdict {
	dir := t.TempDir()
	list, out := filepath.Join(dir, "list.csv"), filepath.Join(dir, "out.csv")
	lines := []string{"email"}
	for _, r := range s.list {
		lines = append(lines, r.address)
	}
	require.NoError(t, os.WriteFile(list, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	l.probity(t, s, list, "-o", out)
	f, err := os.Open(out)
	require.NoError(t, err)
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Len(t, all, len(lines), "the result has every row of the list, in its order")
	column := map[string]int{}
	for i, name := range all[0] {
		column[name] = i
	}
	got := map[string]verdict{}
	for _, r := range all[1:] {
		got[r[0]] = verdict{outcome: strings.TrimSpace(r[column["verify_status"]] + " " + r[column["verify_reason"]])}
	}
	return got
}

// result counts the verdicts of one setup. Rows that are in no other column have a wrong reason, or no verdict.
type result struct {
	setup
	right, falseValid, falseInvalid, needlessUnknown, forcedUnknown int

	tried bool          // false: -run left it out
	took  time.Duration // 0: it was not tried to the end
}

// count compares the verdicts with the right ones; every difference fails the test.
func (r *result) count(t *testing.T, want []row, got map[string]verdict) {
	t.Helper()
	for _, w := range want {
		v := got[w.address]
		if v.outcome == w.want {
			r.right++
			if w.forced != "" {
				r.forcedUnknown++
			}
			continue
		}
		t.Errorf("%s: %s, wanted %s %s", w.address, v.outcome, w.want, v.why)
		status, _, _ := strings.Cut(v.outcome, " ")
		if wanted, _, _ := strings.Cut(w.want, " "); status == wanted {
			continue
		}
		switch status {
		case "VALID":
			r.falseValid++
		case "INVALID":
			r.falseInvalid++
		case "UNKNOWN":
			r.needlessUnknown++
		}
	}
}

// resultTable is for people: the result of each setup, and why the UNKNOWNs that are right cannot be avoided.
func resultTable(all []*result) string {
	all = slices.DeleteFunc(all, func(r *result) bool { return !r.tried })
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERVER\tCONFIGURATION\tROWS\tRIGHT\tFALSE VALID\tFALSE INVALID\tNEEDLESS UNKNOWN\tFORCED UNKNOWN\tTOOK")
	for _, r := range all {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.1fs\n", r.server, r.configuration, len(r.singles)+len(r.list),
			r.right, r.falseValid,
			r.falseInvalid, r.needlessUnknown, r.forcedUnknown, r.took.Seconds())
	}
	_ = w.Flush() // writing to a buffer never fails
	for _, r := range all {
		for _, row := range join(r.singles, r.list) {
			if row.forced != "" {
				fmt.Fprintf(&out, "forced: %s (%s): %s\n", row.address, row.want, row.forced)
			}
		}
	}
	return out.String()
}
