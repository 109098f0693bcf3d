package prober

// fairShare divides what both short and long jobs want: shortWeight parts for short jobs, one for long ones.
type fairShare struct{ shortsAhead int } // what short jobs got above their share; what long ones got counts shortWeight times

const (
	shortWeight = 3
	maxLead     = 4 * maxTransaction // what is owed beyond it is forgotten
)

// next returns the next class: short or bulk. While only one of them wants it, that one gets it, and nothing is owed afterwards.
func (t *fairShare) next(both, shorts bool) priority {
	if !both {
		t.shortsAhead = 0
	}
	if both && t.shortsAhead <= 0 || !both && shorts {
		return short
	}
	return bulk
}

// record counts n for a class while both want it.
func (t *fairShare) record(class priority, n int) {
	if class == bulk {
		n *= -shortWeight
	}
	t.shortsAhead = max(-maxLead, min(t.shortsAhead+n, maxLead))
}
