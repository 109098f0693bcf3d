package bucket

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"probity/internal/shownname"
	"probity/store"
)

// ErrURL begins every refusal of a results_to; the text after it says what to do.
var ErrURL = errors.New("results_to")

const (
	maxURL    = 600 // bytes of a results_to, and of the URL of an object
	urlScheme = "s3://"
)

// bucketName is what the names of buckets are: those of AWS, which are host names.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// Place is a bucket, or the objects in it whose keys begin with a prefix.
type Place struct {
	Bucket string
	Prefix string // without a slash at its ends; empty for the whole bucket
}

// ParsePlace parses s3://bucket/prefix. An error says what to do.
func ParsePlace(raw string) (p Place, err error) {
	if err := shownname.Check(raw, maxURL); err != nil { // it is shown
		return p, fmt.Errorf("it %w", err)
	}
	rest, ok := strings.CutPrefix(raw, urlScheme)
	if !ok {
		return p, errors.New("it must begin with s3://, as in s3://bucket/prefix")
	}
	p.Bucket, p.Prefix, _ = strings.Cut(rest, "/")
	p.Prefix = strings.TrimSuffix(p.Prefix, "/")
	_, notAddress := netip.ParseAddr(p.Bucket)
	if !bucketName.MatchString(p.Bucket) || notAddress == nil || strings.Contains(p.Bucket, "..") {
		return p, errors.New("its bucket must have 3 to 63 lower-case letters, digits, dots and hyphens")
	}
	if strings.ContainsAny(p.Prefix, `?#\`) {
		return p, errors.New(`its prefix must not have ?, # or \`)
	}
	if p.Prefix == "" {
		return p, nil
	}
	for name := range strings.SplitSeq(p.Prefix, "/") {
		if name == "" || name == "." || name == ".." {
			return p, errors.New("its prefix must not have empty names, or names of dots only")
		}
	}
	return p, nil
}

// String is the place as ParsePlace reads it.
func (p Place) String() string {
	if p.Prefix == "" {
		return urlScheme + p.Bucket
	}
	return urlScheme + p.Bucket + "/" + p.Prefix
}

// contains reports whether every object of q is in p.
func (p Place) contains(q Place) bool {
	return p.Bucket == q.Bucket && (p.Prefix == "" || q.Prefix == p.Prefix || strings.HasPrefix(q.Prefix, p.Prefix+"/"))
}

// object is the place of a file with that name.
func (p Place) object(name string) Place {
	if p.Prefix != "" {
		name = p.Prefix + "/" + name
	}
	return Place{p.Bucket, name}
}

// Allowed is a place that results may be delivered to.
type Allowed struct {
	Account string // the e-mail address of the only account that may; empty: any may
	Place
}

// ParseAllowed parses [ACCOUNT=]s3://BUCKET[/PREFIX].
func ParseAllowed(s string) (a Allowed, err error) {
	account, place, only := strings.Cut(s, "="+urlScheme)
	if only {
		a.Account, s = account, urlScheme+place
	}
	if only && !strings.Contains(account, "@") {
		return a, fmt.Errorf("%q is not the e-mail address of an account", account)
	}
	a.Place, err = ParsePlace(s)
	return a, err
}

// allows reports whether the account of an e-mail address may have results delivered to a place.
func allows(list []Allowed, email string, to Place) bool {
	for _, a := range list {
		if (a.Account == "" || store.FoldEmail(a.Account) == store.FoldEmail(email)) && a.contains(to) {
			return true
		}
	}
	return false
}
