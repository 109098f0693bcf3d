package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"probity/engine/outcome"
	"probity/internal/admin"
	"probity/internal/apiclient"
	"probity/internal/console"
	"probity/internal/foreign"
)

// feedbackCmd reports what became of messages.
type feedbackCmd struct {
	File          string            `arg:"" type:"existingfile" help:"CSV with a line for each message." placeholder:"FILE"`
	EmailColumn   string            `help:"The column with the addresses." default:"email" placeholder:"NAME"`
	OutcomeColumn string            `help:"The column with what became of them: delivered, bounced_hard, bounced_soft or complained." default:"outcome" placeholder:"NAME"`
	TimeColumn    string            `help:"The column with when, such as 2026-03-01T12:00:05Z." default:"at" placeholder:"NAME"`
	TextColumn    string            `help:"The column with what the receiving server said, if there is one." default:"bounce_text" placeholder:"NAME"`
	Map           map[string]string `help:"What the words of the file stand for: ok=delivered,hard=bounced_hard." mapsep:"," placeholder:"WORD=OUTCOME"`
	Server        string            `help:"The server's public URL; PROBITY_KEY holds a key of the account." default:"http://127.0.0.1:8080" placeholder:"URL"`
	JSON          bool              `name:"json" help:"One JSON object."`
}

// reportsOfRequest is how many reports are sent at a time, and maxReportsBody how many bytes: less than the server
// takes.
const (
	reportsOfRequest = 5000
	maxReportsBody   = 1 << 20
)

// reportSums is what became of the reports.
type reportSums struct {
	Accepted int `json:"accepted"`
	Repeated int `json:"repeated"`
}

// Run sends the file in parts. After a failure it can be run again: what was sent before changes nothing.
func (c feedbackCmd) Run(ctx context.Context, con *console.IO) error {
	client, err := admin.NewCustomer(con, c.Server)
	if err != nil {
		return err
	}
	f, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer f.Close()
	s := reportSender{client: client}
	s.begin()
	words := foreign.Words{Known: outcome.Reports, Mapping: c.Map}
	columns := []string{c.EmailColumn, c.OutcomeColumn, c.TimeColumn, c.TextColumn + "?"}
	err = foreign.Read(f, columns, func(_ int, cells []string) error {
		word, err := words.Of(cells[1])
		if err != nil {
			return err
		}
		cells[1] = word
		cells[3] = cells[3][:min(len(cells[3]), outcome.MaxText)]
		return s.add(ctx, cells)
	})
	if err == nil {
		err = s.send(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if c.JSON {
		return json.NewEncoder(con.Out).Encode(s.sums)
	}
	_, err = fmt.Fprintf(con.Out, "accepted: %d; sent before: %d\n", s.sums.Accepted, s.sums.Repeated)
	return err
}

// reportSender sends reports in parts.
type reportSender struct {
	client *apiclient.Client
	body   bytes.Buffer
	rows   *csv.Writer
	n      int // in body
	sums   reportSums
}

// begin begins a part.
func (s *reportSender) begin() {
	s.body.Reset()
	s.body.WriteString("email,outcome,at,bounce_text\n")
	s.rows = csv.NewWriter(&s.body)
	s.n = 0
}

func (s *reportSender) add(ctx context.Context, cells []string) error {
	if err := s.rows.Write(cells); err != nil {
		return err
	}
	s.rows.Flush()
	s.n++
	if s.n < reportsOfRequest && s.body.Len() < maxReportsBody {
		return nil
	}
	return s.send(ctx)
}

// send sends the part, and begins another.
func (s *reportSender) send(ctx context.Context) error {
	if s.n == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	answer, err := s.client.Call(ctx, http.MethodPost, "/v1/feedback", "text/csv", &s.body)
	if err != nil {
		return fmt.Errorf("reports %d to %d: %w", s.sums.Accepted+s.sums.Repeated+1,
			s.sums.Accepted+s.sums.Repeated+s.n, err)
	}
	defer answer.Close()
	var sums reportSums
	if err := json.NewDecoder(answer).Decode(&sums); err != nil {
		return fmt.Errorf("the answer of %s: %w", s.client.Base, err)
	}
	s.sums.Accepted += sums.Accepted
	s.sums.Repeated += sums.Repeated
	s.begin()
	return nil
}
