package budget

// Priority is how a probe ranks among others. Single calls may use what jobs must leave; short jobs get the larger
// share of the rest.
type Priority uint8

// The priorities, in the order of their rights.
const (
	LongJob       Priority = iota // a row of a long job
	ShortJob                      // a row of a short job
	Single                        // a single call
	NumPriorities                 // how many priorities there are
)

// IsJob reports whether p is a row of a short or long job.
func (p Priority) IsJob() bool { return p != Single }

// MaxTransaction caps the recipients of one transaction if the receiver sets no limit: RFC 5321 section 4.5.3.1.8
// requires room for 100.
const MaxTransaction = 100

// reservedForSingles is the part of a budget that jobs leave to single calls while they are expected: 20 %, rounded
// down.
func reservedForSingles(limit int) int { return limit / 5 }

// reservedForFirst returns what jobs leave of a rate to the first single call while none is expected.
func reservedForFirst(limit int) int { return limit / 100 }
