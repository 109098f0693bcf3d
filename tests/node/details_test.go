package node_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/coordinator/ingest"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/app"
	"probity/internal/detector"
)

// TestDetailsJustifyEachVerdict verifies a list of the simulated internet with details, in virtual time. A checker that
// reads only the details and the table of rules comes to the same status for each row, and so it does when the answers
// come from the cache. The forms of the result agree.
func TestDetailsJustifyEachVerdict(t *testing.T) {
	detector.Spare(t)
	onInternet(t, func(ctx context.Context, t *testing.T, n *app.Node, internet *sim.Server) {
		list := sampleList(t, internet)
		requireJustified(t, detailedList(ctx, t, n, list))
		cached := requireJustified(t, detailedList(ctx, t, n, list))
		require.Greater(t, cached, scoredRows/2)
	})
}

// shownReply is a reply as details show it.
type shownReply struct {
	Host     string `json:"mx_host"`
	Code     int    `json:"smtp_code"`
	Enhanced string `json:"enhanced_code"`
	Message  string `json:"smtp_message"`
	Rule     string
	Source   string `json:"egress_source"`
}

// detailedRow is a row of a result with details.
type detailedRow struct {
	Row       int
	Status    string
	Score     int
	Reason    string
	FromCache bool      `json:"from_cache"`
	At        time.Time `json:"verified_at"`
	Details   *struct {
		shownReply
		CatchAll *bool `json:"is_catch_all"`
		Stage    string
		Attempts int
		Node     string `json:"checked_by"`
		Control  *struct {
			shownReply
			Kind, Meaning string
			At            time.Time
		}
		ScoreParts []engine.Part `json:"score_parts"`
	}
}

// detailedList verifies a list with details, compares the forms of its result, and returns the rows that have a
// verdict.
func detailedList(ctx context.Context, t *testing.T, n *app.Node, list []byte) (rows []detailedRow) {
	job, err := n.Coordinator.Accept(ctx, ingest.Upload{Body: bytes.NewReader(list),
		Options: ingest.Options{MaxAge: 7 * 24 * time.Hour, MaxHours: ingest.MaxHours, Details: true}})
	require.NoError(t, err)
	_, err = n.Coordinator.Wait(ctx, job.ID)
	require.NoError(t, err)
	var csvText, lines, callback bytes.Buffer
	require.NoError(t, n.Coordinator.Results(ctx, job.ID, results.Filter{}, &csvText))
	require.NoError(t, n.Coordinator.Results(ctx, job.ID,
		results.Filter{Form: results.Form{Format: results.JSONL}, NoInput: true}, &lines))
	require.NoError(t, n.Coordinator.WriteResults(ctx, job.ID, &callback))
	require.Equal(t, lines.String(), callback.String())
	cells, err := csv.NewReader(&csvText).ReadAll()
	require.NoError(t, err)
	column := func(row []string, name string) string { return row[slices.Index(cells[0], name)] }
	for line := range strings.Lines(lines.String()) {
		r := detailedRow{}
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		of := cells[r.Row]
		if r.Details == nil { // a blank row
			require.Empty(t, column(of, "verify_status"))
			require.Empty(t, column(of, "verify_rule"))
			continue
		}
		d := r.Details
		shown := []string{d.Rule, code(d.Code), d.Enhanced, d.Message, d.Host, strconv.Itoa(d.Attempts), d.Node,
			d.Source}
		names := []string{"verify_rule", "verify_smtp_code", "verify_enhanced_code", "verify_smtp_message",
			"verify_mx_host", "verify_attempts",
			"verify_checked_by", "verify_egress_source"}
		if c := d.Control; c != nil {
			shown = append(shown, c.Kind, code(c.Code), c.Enhanced, c.Message, c.Host, c.Meaning, c.Rule,
				c.At.Format(time.RFC3339))
			names = append(names, "verify_control_kind", "verify_control_smtp_code", "verify_control_enhanced_code",
				"verify_control_smtp_message",
				"verify_control_mx_host", "verify_control_meaning", "verify_control_rule", "verify_control_at")
		}
		for i, name := range names {
			require.Equal(t, shown[i], strings.TrimPrefix(column(of, name), "'"), "%s of %s", name, line)
		}
		sum := 0
		for _, p := range d.ScoreParts {
			sum += p.Points
		}
		require.Equal(t, r.Score, sum, line)
		rows = append(rows, r)
	}
	return rows
}

func code(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// requireJustified requires that the checker agrees with each verdict.
func requireJustified(t *testing.T, rows []detailedRow) (cached int) {
	table, n := engine.DefaultTable(), map[string]int{}
	for i := range rows {
		r := &rows[i]
		status, why := statusOf(r, table)
		require.Equal(t, status, r.Status, "%s: %+v, control %+v", why, *r, r.Details.Control)
		n[r.Status+" "+r.Reason]++
		bySMTP := r.Status == "VALID" || r.Reason == "mailbox_not_found" || r.Reason == "mailbox_disabled"
		if !bySMTP {
			continue
		}
		n["by SMTP"]++
		d := r.Details
		if r.FromCache {
			n["from the cache"]++
		}
		require.NotEmpty(t, d.Host)
		require.NotEmpty(t, d.Source)
		require.NotEmpty(t, d.Node)
		require.NotEmpty(t, d.Message)
		require.NotContains(t, d.Message, "@")
		if d.Control != nil {
			n["with both halves"]++
			require.NotEmpty(t, d.Control.Message, "%+v", d.Control)
			require.NotContains(t, d.Control.Message, "@")
			require.NotEmpty(t, d.Control.Source)
			require.Equal(t, d.Host, d.Control.Host)
		}
	}
	t.Logf("%d rows, %v", len(rows), n)
	require.Greater(t, n["by SMTP"], len(rows)/2)
	require.Greater(t, n["with both halves"], n["by SMTP"]/2)
	return n["from the cache"]
}

// statusOf is the status that details justify by themselves, and why.
func statusOf(r *detailedRow, table *engine.Table) (status, why string) {
	d := r.Details
	kind, name, _ := strings.Cut(d.Rule, "/")
	switch {
	case kind == "syntax", kind == "dns" && !slices.Contains([]string{"servfail", "timeout"}, name),
		name == "mailbox-rule":
		return "INVALID", "a fact of syntax or DNS"
	case kind == "list" || name == "accept-all" || name == "parking":
		return "RISKY", "a list, or the provider's habit"
	case kind == "decoy":
		return acceptance(r, name)
	}
	rule := table.Rule(d.Rule)
	switch {
	case rule == nil:
		return "UNKNOWN", "no reply decided"
	case rule.Meaning == engine.MailboxFull && d.Stage == "rcpt":
		return "RISKY", "the mailbox is full"
	case rule.Meaning != engine.NoMailbox && rule.Meaning != engine.MailboxDisabled:
		return "UNKNOWN", "the reply is not about the mailbox"
	case d.Code/100 != 5 || d.Stage != "rcpt":
		return "UNKNOWN", "the reply is not final"
	case d.Control != nil && strings.HasPrefix(d.Control.Kind, "recipient_accepted") &&
		(d.Control.Code/100 != 2 || d.Control.At.Before(r.At.Truncate(time.Second))):
		return "UNKNOWN", "the control was not accepted after it"
	}
	return "INVALID", "refused as unknown"
}

// acceptance returns what an acceptance justifies, by what became of the made-up recipient.
func acceptance(r *detailedRow, decoy string) (status, why string) {
	d := r.Details
	c := d.Control
	switch {
	case d.Code/100 != 2 || d.Stage != "rcpt":
		return "UNKNOWN", "it was not accepted"
	case decoy != "refused":
		return "RISKY", "the made-up recipient was not refused"
	case d.CatchAll == nil || *d.CatchAll || c == nil || c.Host != d.Host || c.Code/100 < 4:
		return "RISKY", "nothing shows that the host refuses anyone"
	case !slices.Contains([]string{"no_mailbox", "mailbox_disabled", "temporary", "unknown"}, c.Meaning):
		return "RISKY", fmt.Sprintf("%s says nothing of unknown users", c.Meaning)
	case strings.HasSuffix(c.Kind, "_after") && c.At.Before(r.At.Truncate(time.Second)):
		return "RISKY", "the refusal came before"
	}
	return "VALID", "accepted by a host that refuses others"
}
