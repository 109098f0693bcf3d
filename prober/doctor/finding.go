package doctor

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Severity is the result of a check. The zero value claims nothing.
type Severity uint8

// The severities.
const (
	Unknown Severity = iota // could not be found out
	OK
	Warn // works, but costs reputation or safety
	Fail // mail servers will refuse us, or this node cannot work
)

var severityNames = [...]string{"unknown", "ok", "warn", "fail"}

func (s Severity) String() string { return severityNames[s] }

// MarshalJSON writes the name.
func (s Severity) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// Finding is one thing looked at.
type Finding struct {
	Check    string   `json:"check"`   // which audit: "ptr", "spf"; one of Checks
	Subject  string   `json:"subject"` // what was looked at: an address, a name, a folder
	Severity Severity `json:"severity"`
	Message  string   `json:"message"` // what was seen
	Advice   string   `json:"advice"`  // what to do about it; empty exactly when Severity is OK
}

// logSubject is the subject for a log: of an address, its domain alone.
func (f Finding) logSubject() string {
	return f.Subject[strings.LastIndexByte(f.Subject, '@')+1:]
}

// Checks are the names of all checks, in the order of a report.
func Checks() []string {
	return []string{"identity", "ehlo", "ptr", "spf", "dnsbl", "mail-from", "mx", "soa", "port25", "mailbox", "terms",
		"resolver", "callbacks", "clock", "files", "store"}
}

// Report is one audit. It is immutable.
type Report struct {
	At       time.Time     `json:"at"`
	Took     time.Duration `json:"took_ns"`
	Findings []Finding     `json:"findings"`
}

// Worst is the gravest severity of the report: Fail, Warn, Unknown, OK.
func (r *Report) Worst() Severity {
	worst := OK
	for _, f := range r.Findings {
		if f.Severity.rank() > worst.rank() {
			worst = f.Severity
		}
	}
	return worst
}

// Count returns how many findings have that severity.
func (r *Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

func (s Severity) rank() int { return [...]int{Unknown: 1, OK: 0, Warn: 2, Fail: 3}[s] }

// subject is one thing that a check looks at.
type subject struct{ check, name string }

func (s subject) ok(format string, args ...any) Finding {
	return Finding{Check: s.check, Subject: s.name, Severity: OK, Message: fmt.Sprintf(format, args...)}
}

func (s subject) warn(advice, format string, args ...any) Finding {
	return Finding{Check: s.check, Subject: s.name, Severity: Warn, Message: fmt.Sprintf(format, args...),
		Advice: advice}
}

func (s subject) fail(advice, format string, args ...any) Finding {
	return Finding{Check: s.check, Subject: s.name, Severity: Fail, Message: fmt.Sprintf(format, args...),
		Advice: advice}
}

func (s subject) unknown(advice, format string, args ...any) Finding {
	return Finding{Check: s.check, Subject: s.name, Severity: Unknown, Message: fmt.Sprintf(format, args...),
		Advice: advice}
}

// maxPrintable bounds what is shown of a peer's text.
const maxPrintable = 160

// printable makes a peer's text safe for a terminal: one line of printable ASCII, cut.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len() >= maxPrintable {
			b.WriteString("...")
			break
		}
		if r < ' ' || r > '~' {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}
