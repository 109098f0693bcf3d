package callback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"probity/store"
)

// linkLife is how long a signed link to results works.
const linkLife = 24 * time.Hour

// Why a signed link was refused.
var (
	// ErrLinkInvalid: not one of our links, or incomplete.
	ErrLinkInvalid = errors.New("the link is wrong or incomplete: use the results_url of the callback as it is, or an API key")
	// ErrLinkExpired: a valid link, but its day is over, its job has expired or its account is closed.
	ErrLinkExpired = errors.New("the link does not work any more")
)

// resultsURL makes a link to a job's results that needs no API key and works for linkLife.
func (s *Sender) resultsURL(j *store.Job, now time.Time) string {
	expires := strconv.FormatInt(now.Add(linkLife).Unix(), 10)
	u := s.publicURL.JoinPath("v1", "verify", "bulk", j.ID, "results")
	u.RawQuery = url.Values{
		"expires":   {expires},
		"signature": {base64.RawURLEncoding.EncodeToString(s.linkMAC(j, expires))},
	}.Encode()
	return u.String()
}

// linkMAC signs a link: its job, account and end, none of which contains a zero byte.
func (s *Sender) linkMAC(j *store.Job, expires string) []byte {
	h := hmac.New(sha256.New, s.linkKey)
	fmt.Fprintf(h, "results\x00%s\x00%s\x00%s", j.ID, j.Account, expires)
	return h.Sum(nil)
}

// VerifyLink returns the job whose results a link may read. job comes from the link's path; expires and signature are
// its query parameters. A refused link is ErrLinkInvalid or ErrLinkExpired; other errors are the store's.
func (s *Sender) VerifyLink(job, expires, signature string) (*store.Job, error) {
	sum, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if err != nil || len(sum) != sha256.Size {
		return nil, ErrLinkInvalid
	}
	end, err := strconv.ParseInt(expires, 10, 64)
	if err != nil {
		return nil, ErrLinkInvalid
	}
	j, err := s.cfg.Store.Job(job)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrLinkInvalid
	}
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(sum, s.linkMAC(j, expires)) {
		return nil, ErrLinkInvalid
	}
	if !time.Now().Before(time.Unix(end, 0)) {
		return nil, fmt.Errorf("%w: it was good for 24 hours; use an API key, or have the callback sent again",
			ErrLinkExpired)
	}
	if j.State == store.JobExpired {
		return nil, fmt.Errorf("%w: the job's results were deleted: their time was over, or its owner deleted them",
			ErrLinkExpired)
	}
	u, err := s.cfg.Store.User(j.Account)
	if errors.Is(err, store.ErrNotFound) || (err == nil && u.Disabled) {
		return nil, fmt.Errorf("%w: the account is closed", ErrLinkExpired)
	}
	return j, err
}
