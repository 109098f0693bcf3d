package api

import (
	"strings"
	"time"

	"probity/coordinator"
	"probity/store"
)

// A download of a job by one key, session or link in one form is recorded once in this time, so that no client can fill the store.
// The last ones recorded are remembered in memory: after a restart, or when there were more since, there is one entry more.
const downloadAuditInterval, maxAuditedDownloads = time.Hour, 10_000

// auditDownload records that results are about to be sent: of which job and account, to which key, session or link, in what form, and
// whether a range of it. Nothing is sent that could not be recorded. Requests at the same moment may record one entry each.
func (c *call) auditDownload(j *store.Job, f coordinator.Filter, part byteRange) error {
	by, with := c.actor(), "key "+c.identity.Key
	switch {
	case c.isSigned():
		by, with = store.AuditActor("signed link", c.clientIPText()), "signed link"
	case c.session != nil:
		with = "session " + c.session.ID
	}
	form := []string{string(f.Format)}
	if f.Compress != coordinator.None {
		form = append(form, string(f.Compress))
	}
	for _, s := range f.Status {
		form = append(form, s.String())
	}
	if !j.State.Finished() {
		form = append(form, "partial")
	}
	if part.isRange {
		form = append(form, "range")
	}
	action := store.AuditEvent{At: c.srv.now(), By: by, Action: "download", Target: j.ID, Note: j.Account + " " + with + " " + strings.Join(form, " ")}
	same := action.Target + " " + action.Note
	if last, ok := c.srv.auditedDownloads.Get(same); ok && action.At.Sub(last.(time.Time)) < downloadAuditInterval {
		return nil
	}
	if err := c.srv.deps.Store.Audit(action); err != nil {
		return err
	}
	c.srv.auditedDownloads.Add(same, action.At)
	return nil
}
