package app

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"probity/coordinator"
	"probity/store/cache"
)

const day = 24 * time.Hour

// Period is a duration in days, such as 7d, or in Go's notation, such as 36h.
type Period time.Duration

// UnmarshalText is called by the parser.
func (p *Period) UnmarshalText(text []byte) error {
	s := string(text)
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * day
	}
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a length of time; write days such as 7d, or hours such as 36h", s)
	}
	*p = Period(d)
	return nil
}

// MarshalText writes whole days as days.
func (p Period) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// String is the shortest form: 7d, 36h, 1h30m.
func (p Period) String() string {
	if s := time.Duration(p).String(); time.Duration(p)%day != 0 {
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		if strings.HasSuffix(s, "h0m") {
			s = strings.TrimSuffix(s, "0m")
		}
		return s
	}
	return strconv.FormatInt(int64(time.Duration(p)/day), 10) + "d"
}

// within refuses a period outside the range of its flag.
func (p Period) within(flag string, least, most time.Duration) error {
	if time.Duration(p) < least || time.Duration(p) > most {
		return fmt.Errorf("--%s %s: give %s to %s", flag, p, Period(least), Period(most))
	}
	return nil
}

// RetainFlags say how long a coordinator keeps the data of jobs.
type RetainFlags struct {
	RetainResults Period `help:"How long the results of a job are kept after its end: 1d to 30d." default:"7d" placeholder:"PERIOD"`
	RetainHistory Period `help:"How long the record of a job is kept after its end, with its name, counts and callback log, and how long the audit log names a download: 30d to 3650d; 0 is for ever." default:"0d" placeholder:"PERIOD"`
}

// check is a part of Validate.
func (f *RetainFlags) check() error {
	if err := f.RetainResults.within("retain-results", coordinator.MinRetention,
		coordinator.MaxRetention); err != nil || f.RetainHistory == 0 {
		return err
	}
	return f.RetainHistory.within("retain-history", 30*day, 3650*day)
}

// RetainCacheFlag says how long the cache of this process keeps a verdict.
type RetainCacheFlag struct {
	RetainCache Period `help:"The longest that a verdict is cached: 1h to 31d. Refusals are kept for 3d at most, others for 31d; default: as long as that." placeholder:"PERIOD"`
}

// check is a part of Validate.
func (f *RetainCacheFlag) check() error {
	if f.RetainCache == 0 {
		return nil
	}
	return f.RetainCache.within("retain-cache", time.Hour, cache.LifeAccepted)
}
