package results

import (
	"strconv"
	"time"

	"probity/engine"
)

// cells writes the columns of an answer in CSV. Words, numbers and times never need quotes, whatever the delimiter, so
// they are not scanned (BenchmarkCells).
type cells struct {
	delimiter byte
	day       int64  // most times are of the same day
	date      string // of that day, with the T; empty before the first time
}

// append appends the columns of an answer, each after a delimiter. The time is RFC 3339 with whole seconds.
func (c *cells) append(dst []byte, ans *answer) []byte {
	v, d := &ans.v, c.delimiter
	dst = append(append(dst, d), v.Status.String()...)
	dst = strconv.AppendUint(append(dst, d), uint64(v.Score), 10)
	dst = append(append(dst, d), v.Reason.String()...)
	for _, b := range [...]bool{v.SyntaxValid(), v.DomainExists(), v.SMTPValid,
		v.Flags.Has(engine.FlagDisposable), v.Flags.Has(engine.FlagRole), v.Flags.Has(engine.FlagFree)} {
		dst = strconv.AppendBool(append(dst, d), b)
	}
	dst = append(append(dst, d), ans.provider.cell...)
	dst = append(append(dst, d), ans.mx.cell...)
	dst = append(append(dst, d), ans.suggestion.cell...)
	dst = strconv.AppendBool(append(dst, d), v.FromCache)
	dst = append(dst, d)
	at := v.VerifiedAt.Unix()
	if at < 0 { // before 1970: only from a damaged log
		return v.VerifiedAt.UTC().AppendFormat(dst, time.RFC3339)
	}
	if day := at / daySeconds; day != c.day || c.date == "" {
		c.day, c.date = day, v.VerifiedAt.UTC().Format("2006-01-02T")
	}
	dst = append(dst, c.date...)
	s := int(at % daySeconds)
	dst = append(appendTwo(dst, s/3600), ':')
	dst = append(appendTwo(dst, s/60%60), ':')
	return append(appendTwo(dst, s%60), 'Z')
}

const daySeconds = 24 * 60 * 60

func appendTwo(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }
