package results

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/klauspost/compress/zstd"

	"probity/coordinator/csvfile"
	"probity/coordinator/details"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/engine/outcome"
	"probity/internal/pipeline"
	"probity/prober/wire/press"
	"probity/store"
)

// windowRows bounds the rows whose records are in memory at one time, 32 bytes each. Each window reads the groups of
// the log that have rows of it. Answers arrive roughly in row order, so each group is read two or three times.
const windowRows = 1 << 19

// Assembly joins a job's answers with its rows.
type Assembly struct {
	r             *Renderer
	job           *store.Job
	filter        Filter
	dialect       csvfile.Dialect
	upload        *jobfiles.Upload
	savedAnswers  vfs.File // the rows log, or the answers file of a finished job; nil: there are no answers
	inputs        []string // JSON text before each cell of input, empty for the e-mail column; nil: no input is written
	groups        []logGroup
	live          *liveIndex     // in place of groups: of a running job that is searched
	answersWriter *AnswersWriter // nil: no answers file is written

	Damaged    int    // unreadable groups of the log
	Unanswered int64  // addresses without a final answer
	Totals     Totals // of the answered rows, also of those that the Filter leaves out; after Write

	window     window // of rows, whose records are in memory
	tally      tally  // as Totals
	find       *find  // nil: all rows are wanted
	wroteAny   bool
	compressor compressor
}

// window is the rows of some frames, one after the other. Its memory is reused for the next one.
type window struct {
	start        uint32            // its first row
	records      []jobfiles.Record // their names are numbers of the whole log
	firstOf      []uint32          // for each row of the window: its first row plus one, or zero
	duplicates   []duplicateRow    // duplicates of rows before the window, ordered by that row
	wantedFirsts jobfiles.RowSet   // the first rows that duplicates refers to
}

type duplicateRow struct{ first, row uint32 }

func (d duplicateRow) compareFirst(row uint32) int { return cmp.Compare(d.first, row) }

// Totals counts rows by status and reason, and charged rows.
type Totals struct {
	status  [4]int64
	reason  [64]int64
	Charged int64
}

// Counts returns the number of rows by status.
func (t *Totals) Counts() map[string]int64 {
	of := map[string]int64{}
	for s, n := range t.status {
		of[engine.Status(s).String()] = n
	}
	return of
}

// Reasons returns the number of rows by reason, without zeros.
func (t *Totals) Reasons() map[string]int64 {
	of := map[string]int64{}
	for r, n := range t.reason {
		if n > 0 && engine.Reason(r) != engine.ReasonNone {
			of[engine.Reason(r).String()] = n
		}
	}
	return of
}

// Config has what a Renderer needs. All fields but TestVerdict are required.
type Config struct {
	Workers     int           // pages that one result renders at a time
	Encoder     *zstd.Encoder // safe for concurrent use by the workers
	Flags       func(engine.Address) engine.Flags
	Suggest     func(engine.Address) string         // did-you-mean, empty where there is none
	TestVerdict func(engine.Address) engine.Verdict // of the rows of test jobs
	Table       func() *engine.Table                // has the sources of rules
	Running     func(job string) bool               // the job is not finished, expired or deleted
	// Probability is how probable it is that an address of an account takes mail, as outcome.Probability says; nil: not
	// known.
	Probability func(account string, b outcome.Bin) (p float64, n int64, known bool)
}

// Renderer renders the results of jobs. It is safe for concurrent use; the memory of pages is reused from job to job.
type Renderer struct {
	cfg     Config
	pages   pipeline.Pool[page]
	indexes *lru.Cache[string, []logGroup] // of the answers files of finished jobs, by job and name
	live    liveIndexes                    // of the logs of running jobs
}

// maxIndexes bounds the indexes in memory; one of five million rows has some 60 KB.
const maxIndexes = 64

// New makes a Renderer.
func New(cfg Config) *Renderer {
	indexes, err := lru.New[string, []logGroup](maxIndexes)
	if err != nil {
		panic(fmt.Sprintf("BUG: an LRU cache of %d: %v", maxIndexes, err))
	}
	return &Renderer{cfg: cfg, pages: pipeline.Pool[page]{Reset: (*page).clearForReuse}, indexes: indexes}
}

// Open joins a job's answers with the rows of its upload. It takes over the files, also if it returns an error. answers
// is nil if the job has none yet.
func (r *Renderer) Open(j *store.Job, upload *jobfiles.Upload, answers vfs.File, f Filter) (*Assembly, error) {
	f = f.WithDefaults()
	a := &Assembly{r: r, job: j, filter: f, upload: upload, savedAnswers: answers,
		compressor: compressor{method: f.Compress, zstd: r.cfg.Encoder}}
	err := json.Unmarshal(j.Dialect, &a.dialect)
	indexed := f.From > 0 && j.Answers != nil
	known := false
	switch {
	case indexed:
		a.groups, known = r.indexes.Get(j.ID + "/" + j.Answers.Name)
	case f.From > 0 && answers != nil:
		a.live, known = r.live.take(j), true
	}
	if err == nil && !known {
		// The whole log is read once, to index its groups and to count missing answers and damaged groups.
		answered, rows := jobfiles.NewRowSet(j.Rows), int64(0)
		var end jobfiles.LogEnd
		end, err = ReadAnswers(j, answers, func(g *jobfiles.Group) error {
			s := logGroup{at: g.At, first: math.MaxUint32}
			for row, rec := range g.Answers() {
				s.first, s.last = min(s.first, row), max(s.last, row)
				if rec.Kind() == jobfiles.Final && answered.Add(row) {
					rows++
				}
			}
			a.groups = append(a.groups, s)
			return nil
		})
		a.Damaged, a.Unanswered = end.Damaged, j.Unique-rows
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	if indexed {
		r.indexes.Add(j.ID+"/"+j.Answers.Name, a.groups)
	}
	if f.Format == JSONL && !f.NoInput {
		a.inputs = inputKeys(&a.dialect, upload.Preamble)
	}
	return a, nil
}

// WriteAnswers makes Write write the answers to w, too. The caller finishes it.
func (a *Assembly) WriteAnswers(w *AnswersWriter) {
	w.names.f, w.names.dialect = a.savedAnswers, &a.dialect
	a.answersWriter = w
}

// Close closes the files.
func (a *Assembly) Close() error {
	if a.live != nil {
		a.r.live.put(a.job.ID, a.live)
		if !a.r.cfg.Running(a.job.ID) { // it ended during the search, perhaps after DropLive
			a.r.live.drop(a.job.ID)
		}
	}
	err := a.upload.Close()
	if a.savedAnswers != nil {
		err = errors.Join(err, a.savedAnswers.Close())
	}
	return err
}

// Write writes the whole result, window by window.
func (a *Assembly) Write(ctx context.Context, w io.Writer) error {
	if a.filter.Format != CSV && a.filter.Format != JSONL {
		return errForm
	}
	if a.filter.Format == CSV {
		ours := columns[:]
		switch {
		case a.filter.InputOnly:
			ours = nil
		case a.job.Details:
			ours = append(slices.Clone(ours), details.Columns[:]...)
		}
		head := a.dialect.AppendPreamble(nil, a.upload.Preamble, ours)
		if a.filter.BOM && !bytes.HasPrefix(head, []byte(csvfile.BOM)) {
			head = slices.Concat([]byte(csvfile.BOM), head)
		}
		if err := a.writePacked(w, head); err != nil {
			return err
		}
	}
	take := func(p *page) error {
		for i, n := range p.total.status {
			a.Totals.status[i] += n
		}
		for i, n := range p.total.reason {
			a.Totals.reason[i] += n
		}
		a.Totals.Charged += p.total.Charged
		a.tally.addAll(&p.tally)
		if len(p.packed) == 0 {
			return nil
		}
		a.wroteAny = true
		_, err := w.Write(p.packed)
		return err
	}
	for next := 0; next < len(a.upload.Frames); {
		end := a.framesEnd(next, windowRows)
		if a.filter.Row > 0 {
			next = a.firstFrame(a.filter.Row - 1)
			if next == len(a.upload.Frames) {
				break
			}
			end = next + 1
		}
		if err := a.renderFrames(ctx, next, end, take); err != nil {
			return err
		}
		next = end
		if a.filter.Row > 0 {
			break
		}
	}
	if !a.wroteAny {
		return a.writePacked(w, nil) // an empty result is compressed too
	}
	return nil
}

// framesEnd returns where the frames from next on end that have at most so many rows, or one frame.
func (a *Assembly) framesEnd(next, most int) int {
	end, rows := next, 0
	for end < len(a.upload.Frames) && (end == next || rows+int(a.upload.Frames[end].Rows) <= most) {
		rows += int(a.upload.Frames[end].Rows)
		end++
	}
	return end
}

// renderFrames renders the frames from next to end, which are one window, and passes them to take in their order.
// Frames are rendered in parallel; each is compressed by itself.
func (a *Assembly) renderFrames(ctx context.Context, next, end int, take func(*page) error) error {
	if err := a.loadWindow(next, end); err != nil {
		return err
	}
	fill := pipeline.Indexes(ctx, end-next, func(p *page, i int) { p.a, p.index = a, next+i })
	return pipeline.Run(&a.r.pages, a.r.cfg.Workers, fill, (*page).render, take)
}

// firstFrame is the index of the frame that has a row, or of the one after it; the number of frames if none has.
func (a *Assembly) firstFrame(row uint32) int {
	n, _ := slices.BinarySearchFunc(a.upload.Frames, row, func(f jobfiles.Frame, row uint32) int {
		if f.First+uint32(f.Rows) <= row {
			return -1
		}
		return 1
	})
	return n
}

func (a *Assembly) writePacked(w io.Writer, b []byte) error {
	packed, err := a.compressor.compress(b)
	if err == nil && len(packed) > 0 {
		a.wroteAny = true
		_, err = w.Write(packed)
	}
	return err
}

// loadWindow reads the records of a window of frames from the log, and copies them to the answers file if one is made.
// A duplicate gets the record of its first row, and has no answer of its own in the file.
func (a *Assembly) loadWindow(next, end int) error {
	w := &a.window
	last := &a.upload.Frames[end-1]
	rows := int(last.First+last.Rows) - int(a.upload.Frames[next].First)
	w.clear(a.upload.Frames[next].First, rows)
	for ; next < end; next++ {
		var err error
		w.firstOf, err = a.upload.AppendFirstRows(w.firstOf, next)
		if err != nil {
			return err
		}
	}
	if a.live != nil {
		return a.loadLive()
	}
	w.findDuplicates()
	for _, group := range a.groups {
		if !w.needs(group) {
			continue
		}
		if err := jobfiles.ReadGroup(a.savedAnswers, group.at, a.applyGroup); err != nil {
			return err
		}
	}
	for i, first := range w.firstOf {
		if first > w.start {
			w.records[i] = w.records[first-1-w.start]
		}
	}
	if a.answersWriter == nil {
		return nil
	}
	for i := range w.records {
		press.Yield(i)
		if w.firstOf[i] != 0 || w.records[i].Kind() == jobfiles.None {
			continue
		}
		if err := a.answersWriter.add(w.start+uint32(i), &w.records[i]); err != nil {
			return fmt.Errorf("answers file: %w", err)
		}
	}
	return nil
}

// clear makes it the window of so many rows, without their records.
func (w *window) clear(start uint32, rows int) {
	w.start = start
	if cap(w.records) < rows {
		w.records = make([]jobfiles.Record, rows)
	}
	w.records = w.records[:rows]
	clear(w.records)
	w.firstOf = slices.Grow(w.firstOf[:0], rows)
	w.duplicates = w.duplicates[:0]
	w.wantedFirsts = nil
}

// findDuplicates finds the duplicates of rows before the window.
func (w *window) findDuplicates() {
	for i, first := range w.firstOf {
		if first != 0 && first <= w.start {
			w.duplicates = append(w.duplicates, duplicateRow{first - 1, w.start + uint32(i)})
		}
	}
	if len(w.duplicates) == 0 {
		return
	}
	slices.SortFunc(w.duplicates, func(x, y duplicateRow) int { return cmp.Compare(x.first, y.first) })
	w.wantedFirsts = jobfiles.NewRowSet(int64(w.start))
	for _, d := range w.duplicates {
		w.wantedFirsts.Add(d.first)
	}
}

// needs reports whether a group may have a row of the window, or the first row of one of its duplicates.
func (w *window) needs(g logGroup) bool {
	if int(g.first) < int(w.start)+len(w.records) && g.last >= w.start {
		return true
	}
	n, _ := slices.BinarySearchFunc(w.duplicates, g.first, duplicateRow.compareFirst)
	return n < len(w.duplicates) && w.duplicates[n].first <= g.last
}

// logGroup is the offset of a group in the log, and the range of its rows.
type logGroup struct {
	at          int64
	first, last uint32
}

// applyGroup stores the records of a group that belong to the window.
func (a *Assembly) applyGroup(g *jobfiles.Group) error {
	w := &a.window
	for row, rec := range g.Answers() {
		if err := CheckRecord(a.job, row, rec); err != nil {
			return err
		}
		switch {
		case row >= w.start && int(row-w.start) < len(w.records):
			w.records[row-w.start].Replace(globalRefs(g, rec))
		case row < w.start && w.wantedFirsts != nil && w.wantedFirsts.Has(row):
			n, _ := slices.BinarySearchFunc(w.duplicates, row, duplicateRow.compareFirst)
			rec = globalRefs(g, rec)
			for ; n < len(w.duplicates) && w.duplicates[n].first == row; n++ {
				w.records[w.duplicates[n].row-w.start].Replace(rec)
			}
		}
	}
	return nil
}

// globalRefs changes the name references of a group's record to numbers of the whole log.
func globalRefs(g *jobfiles.Group, rec *jobfiles.Record) *jobfiles.Record {
	refs := rec.Refs()
	for i := range refs {
		refs[i] = g.GlobalRef(refs[i])
	}
	rec.SetRefs(refs)
	return rec
}

// shownVerdict is the verdict that the file shows for a row.
type shownVerdict struct {
	engine.Verdict
	refs    jobfiles.Refs
	present bool // false for a row that is blank or not yet answered
}

// verdict returns the answer of a row of the window as the file shows it.
func (a *Assembly) verdict(r *jobfiles.Record) (shownVerdict, error) {
	final := a.job.State.Finished() || a.job.State == store.JobFinalizing || a.job.State == store.JobCancelling
	switch k := r.Kind(); {
	case k == jobfiles.Final, k == jobfiles.Provisional && final && !a.job.Cancelled:
		v, err := r.Verdict()
		if err != nil {
			err = fmt.Errorf("rows log: %w: %w", jobfiles.ErrDamaged, err)
		}
		return shownVerdict{v, r.Refs(), true}, err
	case !final:
		return shownVerdict{}, nil
	case a.job.Cancelled:
		return shownVerdict{Verdict: engine.VerdictFor(engine.ReasonCancelled, "job/cancelled", 0, a.job.FinishedAt),
			present: true}, nil
	}
	return shownVerdict{Verdict: engine.VerdictFor(engine.ReasonTimeout, "job/max-hours", 0, a.job.FinishedAt),
		present: true}, nil
}
