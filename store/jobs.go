package store

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// JobState is the state of a job.
type JobState string

// The states. A ready job waits for its owner to start it. Running and paused alternate; cancelling ends in cancelled;
// all finished jobs end in expired.
const (
	JobReady      JobState = "ready"
	JobQueued     JobState = "queued"
	JobRunning    JobState = "running"
	JobPaused     JobState = "paused"
	JobCancelling JobState = "cancelling"
	JobFinalizing JobState = "finalizing"
	JobCompleted  JobState = "completed"
	JobCancelled  JobState = "cancelled"
	JobFailed     JobState = "failed"
	JobExpired    JobState = "expired"
)

// Finished reports whether no more work is done for the job; its files may still exist.
func (s JobState) Finished() bool {
	return s == JobCompleted || s == JobCancelled || s == JobFailed || s == JobExpired
}

// Job is the record of a job. It has no address, and no cell of the file but the name of one header.
type Job struct {
	ID        string   `json:"id"`
	Account   string   `json:"account,omitempty"`
	Key       string   `json:"key,omitempty"` // id of the API key that it came with; empty for a session
	State     JobState `json:"state"`
	Cancelled bool     `json:"cancelled,omitempty"` // on its way to cancelled through finalizing
	// accepted in state ready and never started: nothing is reserved for it
	Unstarted bool            `json:"unstarted,omitempty"`
	Name      string          `json:"name,omitempty"`
	Filename  string          `json:"filename,omitempty"`
	Dialect   json.RawMessage `json:"sheet"` // the file's dialect, in the coordinator's format
	// the object with its rows
	Upload     string    `json:"upload,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	PausedAt   time.Time `json:"paused_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	ExpiredAt  time.Time `json:"expired_at,omitzero"` // its files were deleted

	Rows       int64 `json:"rows"`
	Unique     int64 `json:"unique"`     // distinct addresses: at most so many are probed and charged
	Duplicates int64 `json:"duplicates"` // rows whose address is in an earlier row
	Blank      int64 `json:"blank"`      // rows without an address

	MaxAge   time.Duration `json:"max_age"`
	MaxHours int           `json:"max_hours"`
	NoSMTP   bool          `json:"no_smtp,omitempty"`
	Details  bool          `json:"details,omitempty"` // its results have details
	Test     bool          `json:"test,omitempty"`    // of a test key: nothing is probed

	Term uint32 `json:"term"` // how often work on it was started: answers of an earlier term are void

	Counts      map[string]int64 `json:"counts,omitempty"`  // rows by status, once finished
	Reasons     map[string]int64 `json:"reasons,omitempty"` // rows by reason, once finished
	Tally       *Tally           `json:"tally,omitempty"`   // while it has results
	Charged     int64            `json:"charged,omitempty"` // distinct addresses that cost a credit
	Answers     *AnswersFile     `json:"answers,omitempty"` // once finished
	Result      string           `json:"result,omitempty"`  // name of the result file
	ResultBytes int64            `json:"result_bytes,omitempty"`
	ResultSHA   string           `json:"result_sha256,omitempty"`
	Error       string           `json:"error,omitempty"`
	Damage      string           `json:"damage,omitempty"` // the effect of a part of its files that could not be read

	CallbackURL     string `json:"callback_url,omitempty"`
	CallbackContent string `json:"callback_content,omitempty"`
	CallbackInput   bool   `json:"callback_input,omitempty"` // its rows carry the other columns of the list

	// added to its request; the values are secrets
	CallbackHeaders map[string]string `json:"callback_headers,omitempty"`

	Traceparent string `json:"traceparent,omitempty"` // of the request that made it
}

// ScoreSteps is the number of steps of ten points; the last includes 100.
const ScoreSteps = 10

// Tally counts the rows of a finished job that have a verdict.
type Tally struct {
	Providers map[string]map[string]int64 `json:"providers"` // by name and status, without zeros
	Scores    [ScoreSteps]int64           `json:"scores"`
	Spans     map[string]Span             `json:"spans,omitempty"` // by status
}

// Span is the first and the last row with something, counted from 1.
type Span [2]int64

// AnswersFile identifies the answers file of a finished job.
type AnswersFile struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Rows  int64  `json:"rows"` // rows with their own answer
	Sum   uint64 `json:"sum"`  // its last checksum, which covers the whole file
}

// SetFiles takes the files of another record of the job.
func (j *Job) SetFiles(of *Job) {
	j.Upload, j.Answers, j.Tally = of.Upload, of.Answers, of.Tally
	j.Result, j.ResultSHA, j.ResultBytes = of.Result, of.ResultSHA, of.ResultBytes
}

// Jobs are the records of jobs and of their callbacks.
type Jobs struct{ *DB }

// ErrJobExists is returned when a job is accepted under an id that is taken.
var ErrJobExists = errors.New("a job of this id exists")

// AcceptJob creates a job, in one commit with the other parts of its acceptance (reservation, idempotency). A part's
// error abandons the commit and is returned as it is.
func (j *Jobs) AcceptJob(job *Job, extra ...Part) error {
	if err := checkName("job id", job.ID); err != nil {
		return err
	}
	put := func(b *pebble.Batch) error {
		if _, err := get(b, key(tableJob, job.ID)); !errors.Is(err, ErrNotFound) {
			return errors.Join(err, ErrJobExists)
		}
		return setJob(b, nil, job)
	}
	return j.Commit(job.Account, append([]Part{put}, extra...)...)
}

// UpdateJob changes a job in one commit with other parts, and returns the changed job. An error of change abandons the
// commit and is returned as it is.
func (j *Jobs) UpdateJob(id string, change func(*Job) error, extra ...Part) (*Job, error) {
	was, err := j.Job(id)
	if err != nil {
		return nil, err
	}
	var now *Job
	update := func(b *pebble.Batch) error {
		if now, err = readJob(b, id); err != nil {
			return err
		}
		before := *now
		if err := change(now); err != nil {
			return err
		}
		return setJob(b, &before, now)
	}
	if err := j.Commit(was.Account, append([]Part{update}, extra...)...); err != nil {
		return nil, err
	}
	return now, nil
}

// Job returns a job by id, or ErrNotFound.
func (j *Jobs) Job(id string) (*Job, error) { return readJob(j.db, id) }

// AllJobs calls visit with every job, by id. It reads all records that there are; JobsIn reads those in one stage.
func (j *Jobs) AllJobs(visit func(*Job) error) error {
	return scan(j.db, []byte{tableJob}, nil, func(k, v []byte) error {
		job := new(Job)
		if err := decodeJSON(k, v, job); err != nil {
			return err
		}
		return visit(job)
	})
}

// DeleteJob deletes a job, its callback and the callback's log, in one commit with other parts. Its files must be
// deleted before. A job that there is not any more is no error, and has no commit.
func (j *Jobs) DeleteJob(id string, extra ...Part) error {
	was, err := j.Job(id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	remove := func(b *pebble.Batch) error {
		job, err := readJob(b, id) // it may have been changed since
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(b.Delete(ownerKey(job), nil), b.Delete(stageKey(job), nil), b.Delete(key(tableJob, id), nil))
	}
	return j.Commit(was.Account, append([]Part{DropCallback(id), remove}, extra...)...)
}

func readJob(r pebble.Reader, id string) (*Job, error) { return readJSON[*Job](r, key(tableJob, id)) }
