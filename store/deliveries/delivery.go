package deliveries

import "time"

// State is the state of a delivery.
type State string

// The states. Only a pending delivery has attempts to come.
const (
	Pending   State = "pending"
	Delivered State = "delivered"
	Failed    State = "failed" // the schedule is used up, or there is nothing to deliver
)

// Delivery is the delivery of the results of one job.
type Delivery struct {
	Job      string    `json:"job"`
	Account  string    `json:"account"`
	URL      string    `json:"url"` // s3://bucket/key
	State    State     `json:"state"`
	Attempts int       `json:"attempts"`          // that have ended
	Tries    int       `json:"tries"`             // the last of them, which brought no new part
	Next     time.Time `json:"next,omitzero"`     // of the next attempt; zero while the job runs, and in the end
	Error    string    `json:"error,omitempty"`   // of the last attempt, or why there is none
	Upload   *Upload   `json:"upload,omitempty"`  // begun and not completed
	EndedAt  time.Time `json:"ended_at,omitzero"` // when it was delivered, or failed
}

// Upload is a multipart upload.
type Upload struct {
	ID        string   `json:"id"`   // empty if the storage does not know it any more: the file needs another one
	File      string   `json:"file"` // SHA-256 of the file, in hex
	PartBytes int64    `json:"part_bytes"`
	Parts     []string `json:"parts,omitempty"` // ETags of the first parts
	Most      int      `json:"most,omitempty"`  // most parts that were in an upload of the file at one time
}

// delays are the delays after the first try without a new part and after each further one but the last.
var delays = [...]time.Duration{5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
	6 * time.Hour, 12 * time.Hour, 24 * time.Hour}

// maxError bounds the text of an error, in bytes.
const maxError = 500

// Begin makes the delivery due. A delivery that has begun before stays as it is.
func (d *Delivery) Begin(now time.Time) {
	if d.State == Pending && d.Next.IsZero() {
		d.Next = now.UTC()
	}
}

// BeginUpload records a new upload of a file, which has no part yet.
func (d *Delivery) BeginUpload(id, file string, partBytes int64) {
	most := 0
	if d.Upload != nil && d.Upload.File == file {
		most = d.Upload.Most
	}
	d.Upload = &Upload{ID: id, File: file, PartBytes: partBytes, Most: most}
}

// AddPart records a part that arrived, by its ETag. If no upload of the file had so many, the schedule begins again.
func (d *Delivery) AddPart(tag string) {
	u := d.Upload
	u.Parts = append(u.Parts, tag)
	if len(u.Parts) > u.Most {
		u.Most, d.Tries = len(u.Parts), 0
	}
}

// LoseUpload records that the storage does not know the upload any more.
func (d *Delivery) LoseUpload() {
	if d.Upload != nil {
		d.Upload.ID, d.Upload.Parts = "", nil
	}
}

// Complete ends the delivery after an attempt that succeeded. Like the others below it changes a pending delivery only.
func (d *Delivery) Complete(now time.Time) {
	if d.State != Pending {
		return
	}
	d.Attempts++
	d.end(Delivered, "", now)
}

// Abandon ends a delivery that is not possible any more.
func (d *Delivery) Abandon(why string, now time.Time) {
	if d.State == Pending {
		d.end(Failed, why, now)
	}
}

func (d *Delivery) end(state State, why string, now time.Time) {
	d.State, d.Error = state, why
	d.Upload, d.Next, d.EndedAt = nil, time.Time{}, now.UTC()
}

// Fail ends an attempt that failed. The next one is due by the schedule. jitter, from 0 to 1, is the part of a fifth of
// the delay that is added to it.
func (d *Delivery) Fail(why string, jitter float64, now time.Time) {
	if d.State != Pending {
		return
	}
	d.Attempts++
	d.Tries++
	why = why[:min(len(why), maxError)]
	if d.Tries > len(delays) {
		d.Abandon(why, now)
		return
	}
	delay := delays[d.Tries-1]
	d.Error = why
	d.Next = now.Add(delay + time.Duration(float64(delay)/5*min(max(jitter, 0), 1))).UTC()
}
