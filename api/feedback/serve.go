package feedback

import (
	"errors"
	"time"

	"probity/api/httpd"
	"probity/engine"
	"probity/engine/outcome"
	"probity/store"
	"probity/store/feedback"
)

// Receive serves POST /v1/feedback: reports of an account. Those of a test key are checked and not kept.
func Receive(c *httpd.Call, book *feedback.Book, table *engine.Table, account store.Identity, now time.Time) error {
	r := reader{book, table, now}
	var reports []feedback.Report
	var err error
	if text, is := c.CSV(); is {
		reports, err = r.csv(text)
	} else {
		reports, err = r.json(c.Document())
	}
	if err != nil {
		return err
	}
	sum := feedback.Added{Accepted: len(reports)}
	if !account.Test {
		sum, err = book.Add(account.User.ID, reports)
	}
	if errors.Is(err, feedback.ErrFull) {
		full := httpd.Refuse(httpd.TooMany,
			"Too many reports of this account wait to be matched with their verdicts: send these again later.")
		full.Retry = time.Minute
		return full
	}
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusAccepted, map[string]int{"accepted": sum.Accepted, "repeated": sum.Repeated})
}

// BinOf is the bin of a verdict that is given now.
func BinOf(v *engine.Verdict, now time.Time) outcome.Bin {
	return outcome.BinOf(v.ProviderName, v.Status, v.Reason, engine.Score(v, now))
}

// row is a row of the answer to GET /v1/accuracy.
type row struct {
	Receiver    string  `json:"receiver"`
	Status      string  `json:"status"`
	Reason      *string `json:"reason"`
	N           int64   `json:"n"`
	Delivered   int64   `json:"delivered"`
	Complained  int64   `json:"complained"`
	Bounced     int64   `json:"bounced"`
	Unclear     int64   `json:"unclear"`
	Accuracy    *share  `json:"accuracy"`
	Deliverable *share  `json:"deliverable"`
}

type share struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

func shown(s outcome.Share) *share {
	if !s.Known {
		return nil
	}
	return &share{s.Value, s.Low, s.High}
}

// SendAccuracy serves GET /v1/accuracy: how often the account's verdicts were right.
func SendAccuracy(c *httpd.Call, book *feedback.Book, account string) error {
	sum, err := book.Summary(account)
	if err != nil {
		return err
	}
	rows := make([]row, len(sum.Rows))
	for i, r := range sum.Rows {
		rows[i] = row{Receiver: r.Receiver, Status: r.Status.String(), N: r.N, Delivered: r.Counts[outcome.Delivered],
			Complained: r.Counts[outcome.Complained], Bounced: r.Counts[outcome.Bounced],
			Unclear:  r.Counts[outcome.Unclear],
			Accuracy: shown(r.Accuracy), Deliverable: shown(r.Deliverable)}
		if name := r.Reason.String(); name != "" {
			rows[i].Reason = &name
		}
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"rows": rows, "waiting": sum.Waiting, "unmatched": sum.Unmatched})
}
