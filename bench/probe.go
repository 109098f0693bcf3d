package bench

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"probity/bench/process"
	"probity/bench/report"
	"probity/bench/sim/world"
)

// runProbe measures two things next to the bare client, over the same recipients: our conversation alone (sessions,
// replies, verdicts), which does the same work as the bare client; and the whole path of a row from list to result, of
// which the conversation is a small part.
func runProbe(ctx context.Context, t *Trial) error {
	return t.withInternet(ctx, 0, func(in *internet) error {
		list, rows, err := writeLargeRoutes(t, in.world)
		if err != nil {
			return err
		}
		tasks, err := plan(ctx, t, in, list)
		if err != nil {
			return err
		}
		bare, err := measureConversation(ctx, t, tasks)
		if err != nil {
			return err
		}
		r, err := verify(ctx, t, in, verifyJob{list: list, result: "result.csv.zst"})
		if err != nil {
			return err
		}
		t.reportRun(r, rows, bare)
		t.Note("conversation_... is sessions, replies and verdicts alone; ratio_to_floor and cpu_ratio_to_floor hold the whole path of a row " +
			"against the same floor: reading, DNS, TLS, budgets, cache and result, of which the floor does nothing")
		t.Plots.Memory = []report.Series{process.MemorySeries("verify", r.samples)}
		t.AtLeast("recipients_per_connection", 20)
		return t.scoreRun(in.world, list, r)
	})
}

// largeRoutes are the providers that hold most of the world's mailboxes.
var largeRoutes = []string{"google", "microsoft365", "outlook", "yahoo", "icloud"}

// writeLargeRoutes writes a list of the rows that go to the large routes, in their order and with all cells.
func writeLargeRoutes(t *Trial, w *world.World) (path string, rows int, err error) {
	all, err := t.writeList("all.csv", w, t.rows)
	if err != nil {
		return "", 0, err
	}
	path, err = t.writeFile("list.csv", func(out io.Writer) error {
		rows, err = filterRows(out, all, func(cell string) bool {
			_, domain, _ := strings.Cut(strings.TrimSpace(cell), "@")
			d, ok := w.Domain(domain)
			return ok && slices.Contains(largeRoutes, d.Persona.Provider)
		})
		return err
	})
	return path, rows, errors.Join(err, os.Remove(filepath.Join(t.Dir, "all.csv")))
}

// filterRows copies a list's header and the rows whose e-mail cell matches want, and counts these.
func filterRows(out io.Writer, list string, want func(cell string) bool) (rows int, err error) {
	f, err := os.Open(list)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	in := csv.NewReader(bufio.NewReaderSize(f, 1<<20))
	in.ReuseRecord = true
	column := slices.Index(strings.Split(world.ListHeader, ","), "email")
	w := csv.NewWriter(out)
	for header := true; ; header = false {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return rows, err
		}
		if !header && !want(row[column]) {
			continue
		}
		if !header {
			rows++
		}
		if err := w.Write(row); err != nil {
			return rows, err
		}
	}
	w.Flush()
	return rows, w.Error()
}
