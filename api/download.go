package api

import (
	"strings"
	"time"

	"probity/api/httpd"
	"probity/coordinator/results"
	"probity/store"
)

// A download of a job by one key, session or link in one form is recorded once per downloadAuditInterval, so that no
// client can fill the store. The last maxAuditedDownloads are kept in memory: after a restart, or once they are
// evicted, one more is recorded.
const downloadAuditInterval, maxAuditedDownloads = time.Hour, 10_000

// auditDownload records a download before it is sent: the job and account, the key, session or link, the form, and
// whether it is a range. What could not be recorded is not sent. Concurrent requests may record one entry each.
func auditDownload(c *call, j *store.Job, f results.Filter, part httpd.ByteRange) error {
	by, with := actor(c), "key "+c.identity.Key
	switch {
	case isSigned(c):
		by, with = store.AuditActor("signed link", clientIPText(c)), "signed link"
	case c.session != nil:
		with = "session " + c.session.ID
	}
	form := []string{string(f.Format)}
	if f.Compress != results.None {
		form = append(form, string(f.Compress))
	}
	for _, s := range f.Status {
		form = append(form, s.String())
	}
	if !j.State.Finished() {
		form = append(form, "partial")
	}
	if part.IsRange {
		form = append(form, "range")
	}
	action := store.AuditEvent{At: c.srv.now(), By: by, Action: "download", Target: j.ID,
		Note: j.Account + " " + with + " " + strings.Join(form, " ")}
	same := action.Target + " " + action.Note
	if last, ok := c.srv.auditedDownloads.Get(same); ok && action.At.Sub(last) < downloadAuditInterval {
		return nil
	}
	if err := c.srv.deps.Store.Audit(action); err != nil {
		return err
	}
	c.srv.auditedDownloads.Add(same, action.At)
	return nil
}
