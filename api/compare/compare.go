package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"probity/api/httpd"
	"probity/internal/foreign"
	"probity/internal/jsonlines"
	"probity/internal/pipeline"
	"probity/store"
)

// The limits of a request. MaxBody is in bytes.
const (
	MaxBody      = 16 << 20
	maxAddresses = 500_000 // of another verifier
	maxListed    = 20_000  // in JSON
	maxExamples  = 20
	fewExamples  = 3 // unless the request says how many
)

// patience is how long a comparison waits for those before it.
const patience = 20 * time.Second

// Queue is where comparisons wait for those before them.
type Queue struct {
	slot  chan struct{} // held by the comparison in progress
	turns pipeline.Turns
}

// NewQueue makes a Queue.
func NewQueue() *Queue { return &Queue{slot: make(chan struct{}, 1)} }

// Send compares what another verifier found, which is in the request, with the results of a job. write writes them in
// JSONL.
func (q *Queue) Send(ctx context.Context, c *httpd.Call, j *store.Job,
	write func(context.Context, io.Writer) error) error {
	examples, err := c.QueryNumber("examples", fewExamples, 0, maxExamples)
	if err != nil {
		return err
	}
	done, err := q.begin(ctx, j.Account)
	if err != nil {
		return err
	}
	defer done()
	theirs, err := readTheirs(c)
	if err != nil {
		return err
	}
	comparer := foreign.NewComparer(theirs, int(examples))
	err = write(ctx, &jsonlines.Writer{Line: func(line []byte) error { return addRow(comparer, line) }})
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, comparer.Result(int(j.Unique)))
}

// begin waits until a comparison of an account may be made; the caller calls done afterwards. Of each account one waits
// for the slot, so that an account that sends many does not keep the others from it.
func (q *Queue) begin(ctx context.Context, account string) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	endTurn, err := q.turns.Begin(ctx, account)
	if err != nil {
		return nil, httpd.Busy("Other comparisons of your account are in progress")
	}
	if err := pipeline.Acquire(ctx, q.slot); err != nil {
		endTurn()
		return nil, httpd.Busy("The server is busy with other comparisons")
	}
	return func() {
		<-q.slot
		endTurn()
	}, nil
}

// readTheirs reads the results of the other verifier.
func readTheirs(c *httpd.Call) (map[string]string, error) {
	words, err := readMap(c.QueryText("map"))
	if err != nil {
		return nil, err
	}
	text, isCSV := c.CSV()
	if !isCSV {
		return readListed(c.Document(), words)
	}
	email, status := c.QueryText("email_column"), c.QueryText("status_column")
	if email == "" {
		email = "email"
	}
	if status == "" {
		status = "status"
	}
	theirs, err := foreign.ReadStatuses(bytes.NewReader(text), email, status, words, maxAddresses)
	if errors.Is(err, foreign.ErrTooMany) {
		return nil, httpd.Refuse(httpd.TooLarge,
			"The file has more than %d addresses: compare it with `probity compare`, or send parts of it.", maxAddresses)
	}
	if err != nil {
		return nil, httpd.Refuse(httpd.Unacceptable, "%s. "+
			"The first line of the file names the columns; email_column and status_column say which they are.", err)
	}
	return theirs, nil
}

// readMap reads pairs such as good=VALID.
func readMap(text string) (foreign.Words, error) {
	words := foreign.Words{Known: foreign.Statuses, Mapping: map[string]string{}}
	if text == "" {
		return words, nil
	}
	known := foreign.Words{Known: foreign.Statuses}
	for pair := range strings.SplitSeq(text, ",") {
		word, status, found := strings.Cut(pair, "=")
		status, err := known.Of(status)
		if !found || err != nil {
			return words, httpd.Refuse(httpd.Unacceptable,
				"map must be pairs such as good=VALID,bad=INVALID, of a word of the other verifier and one of %s.",
				strings.Join(foreign.Statuses, ", "))
		}
		words.Mapping[strings.TrimSpace(word)] = status
	}
	return words, nil
}

// readListed reads the results of a JSON body.
func readListed(d *httpd.Document, words foreign.Words) (map[string]string, error) {
	theirs := map[string]string{}
	return theirs, d.Objects("results", maxListed, func(object *httpd.Document) error {
		email, err := object.RequiredText("email")
		if err != nil {
			return err
		}
		word, err := object.RequiredText("status")
		if err != nil {
			return err
		}
		status, err := words.Of(word)
		if err != nil {
			return httpd.Refuse(httpd.Unacceptable, "status: %s.", err)
		}
		theirs[foreign.Key(email)] = status
		return nil
	})
}

// result is what of a row of ours is read.
type result struct {
	Email    string      `json:"email"`
	Status   *string     `json:"status"` // nil of a blank row
	Score    json.Number `json:"score"`
	Reason   string      `json:"reason"`
	Receiver string      `json:"smtp_provider"`
	Details  struct {    // of a job with details
		Code    json.Number `json:"smtp_code"`
		Message string      `json:"smtp_message"`
		Host    string      `json:"mx_host"`
		Rule    string      `json:"rule"`
		Control struct {
			Message string `json:"smtp_message"`
		} `json:"control"`
	} `json:"details"`
}

func addRow(to *foreign.Comparer, line []byte) error {
	var row result
	if err := json.Unmarshal(line, &row); err != nil || row.Status == nil {
		return err
	}
	d := &row.Details
	to.Add(foreign.Key(row.Email), &foreign.Verdict{Status: *row.Status, Receiver: row.Receiver,
		Evidence: foreign.Evidence{Email: row.Email, Reason: row.Reason, Score: row.Score.String(),
			Code: d.Code.String(), Message: d.Message, Host: d.Host, Rule: d.Rule, Control: d.Control.Message}})
	return nil
}
