package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"probity/bench/report"
	"probity/bench/sim"
	"probity/bench/sim/score"
	"probity/bench/sim/world"
)

// writeFile writes a file of the trial and returns its path.
func (t *Trial) writeFile(name string, write func(io.Writer) error) (string, error) {
	path := filepath.Join(t.Dir, name)
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	b := bufio.NewWriterSize(f, 1<<20)
	return path, errors.Join(write(b), b.Flush(), f.Close())
}

// writeList writes a list of rows addresses of w.
func (t *Trial) writeList(name string, w *world.World, rows int) (string, error) {
	return t.writeFile(name, func(out io.Writer) error { return world.WriteList(out, w, rows, t.Options.Seed) })
}

// writeProviders writes the override file of a speed-up.
func (t *Trial) writeProviders(speedup float64) (string, error) {
	return t.writeFile("providers.toml", func(out io.Writer) error { return sim.WriteProviders(out, speedup) })
}

// scoreRun compares a run's result with the truth of its list, which it makes meanwhile, and reports the scores.
func (t *Trial) scoreRun(w *world.World, list string, r runStats) error {
	in, err := os.Open(list)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Open(r.result)
	if err != nil {
		return err
	}
	defer out.Close()
	truth, truthWriter := io.Pipe()
	go func() { truthWriter.CloseWithError(score.WriteTruth(truthWriter, w, in)) }()
	scores, err := score.Compare(truth, out)
	// Even if Compare has not read everything, the writer of the truth must end before its input is closed.
	_ = truth.CloseWithError(io.ErrClosedPipe)
	if err != nil {
		return fmt.Errorf("score: %w", err)
	}
	t.reportScores(scores)
	return nil
}

// reportScores reports the scores of the result, and sets a bar for those that must be 0.
func (t *Trial) reportScores(s score.Scores) {
	for _, m := range []struct {
		name  string
		value int
	}{
		{"false_valid", s.FalseValid}, {"false_invalid", s.FalseInvalid}, {"unexpected_unknown", s.UnexpectedUnknown},
		{"wrong_status", s.WrongStatus}, {"wrong_reason", s.WrongReason}, {"missing_rows", s.MissingRows},
		{"extra_rows", s.ExtraRows},
		{"order_errors", s.OrderErrors}, {"changed_cells", s.ChangedCells},
	} {
		t.Metric(m.name, float64(m.value), "")
		t.AtMost(m.name, 0)
	}
	t.Plots.Confusion = s.Confusion
	for _, what := range slices.Sorted(maps.Keys(s.Wrong)) {
		n := s.Wrong[what]
		t.Note("wrong: %s, %s rows", what, report.FormatNumber(float64(n)))
		t.logProgress("wrong: %s, %s rows", what, report.FormatNumber(float64(n)))
	}
}
