package results

import (
	"strconv"
	"time"

	"probity/engine"
)

// cells writes the columns of an answer in CSV. Words, numbers and times never need quotes, whatever the delimiter, so they
// are not scanned (BenchmarkCells).
type cells struct {
	delimiter byte
	clock     clock
}

// append appends the columns of an answer, each after a delimiter.
func (c *cells) append(dst []byte, ans *answer) []byte {
	v, d := &ans.v, c.delimiter
	dst = append(append(dst, d), v.Status.String()...)
	dst = strconv.AppendUint(append(dst, d), uint64(v.Score), 10)
	dst = append(append(dst, d), v.Reason.String()...)
	for _, b := range [...]bool{v.SyntaxValid(), v.DomainExists(), v.SMTPValid,
		v.Flags.Has(engine.FlagDisposable), v.Flags.Has(engine.FlagRole), v.Flags.Has(engine.FlagFree)} {
		dst = appendBool(append(dst, d), b)
	}
	dst = append(append(dst, d), ans.provider.cell...)
	dst = append(append(dst, d), ans.mx.cell...)
	dst = append(append(dst, d), ans.suggestion.cell...)
	dst = appendBool(append(dst, d), v.FromCache)
	return c.clock.append(append(dst, d), v.VerifiedAt)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

// clock writes RFC 3339 times with whole seconds. It keeps the date: most times are of the same day.
type clock struct {
	day  int64
	date string // of that day, with the T; empty before the first time
}

const daySeconds = 24 * 60 * 60

func (c *clock) append(dst []byte, t time.Time) []byte {
	at := t.Unix()
	if at < 0 { // before 1970: only from a damaged log
		return t.UTC().AppendFormat(dst, time.RFC3339)
	}
	if day := at / daySeconds; day != c.day || c.date == "" {
		c.day, c.date = day, t.UTC().Format("2006-01-02T")
	}
	dst = append(dst, c.date...)
	s := int(at % daySeconds)
	dst = append(appendTwo(dst, s/3600), ':')
	dst = append(appendTwo(dst, s/60%60), ':')
	return append(appendTwo(dst, s%60), 'Z')
}

func appendTwo(dst []byte, n int) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }
