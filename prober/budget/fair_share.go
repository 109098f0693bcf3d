package budget

// FairShare divides what both short and long jobs want: shortWeight parts for short jobs, one for long ones.
// what short jobs got above their share; what long ones got counts shortWeight times
type FairShare struct{ shortsAhead int }

const (
	shortWeight = 3
	maxLead     = 4 * MaxTransaction // what is owed beyond it is forgotten
)

// Next returns the next priority: ShortJob or LongJob. While only one of them wants it, that one gets it, and nothing
// is owed afterwards.
func (fs *FairShare) Next(both, shorts bool) Priority {
	if !both {
		fs.shortsAhead = 0
	}
	if both && fs.shortsAhead <= 0 || !both && shorts {
		return ShortJob
	}
	return LongJob
}

// Record counts n for a priority while both want it.
func (fs *FairShare) Record(priority Priority, n int) {
	if priority == LongJob {
		n *= -shortWeight
	}
	fs.shortsAhead = max(-maxLead, min(fs.shortsAhead+n, maxLead))
}
