package api

import (
	"strings"
	"time"

	"probity/coordinator"
	"probity/store"
)

// A download of a job by one key, session or link in one form is recorded once in this time, so that no client can fill the store.
// The last ones recorded are remembered in memory: after a restart, or when there were more since, there is one entry more.
const downloadEvery, maxDownloads = time.Hour, 10_000

// auditDownload records that results are about to be sent: of which job and account, to which key, session or link, in what form, and
// whether a range of it. Nothing is sent that could not be recorded. Requests at the same moment may record one entry each.
func (x *exchange) auditDownload(j *store.Job, f coordinator.Filter, part span) error {
	by, with := x.by(), "key "+x.who.Key
	switch {
	case x.isSigned():
		by, with = store.Actor("signed link", x.clientText()), "signed link"
	case x.visit != nil:
		with = "session " + x.visit.ID
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
	if part.asked {
		form = append(form, "range")
	}
	act := store.Act{At: x.srv.now(), By: by, Act: "download", Target: j.ID, Note: j.Account + " " + with + " " + strings.Join(form, " ")}
	same := act.Target + " " + act.Note
	if last, ok := x.srv.recorded.Get(same); ok && act.At.Sub(last.(time.Time)) < downloadEvery {
		return nil
	}
	if err := x.srv.rooms.Store.Audit(act); err != nil {
		return err
	}
	x.srv.recorded.Add(same, act.At)
	return nil
}
