package prober

// fairShare shares what both short and long jobs want: of each part for the long ones the short ones have shortWeight. So a long
// job that has every budget to itself takes a third longer at the most while short ones last, and a short one takes a third
// longer with it than alone, whatever the number of its rows.
type fairShare struct{ shortsAhead int } // what the short ones have had above their share; of longs counted shortWeight times

const (
	shortWeight = 3
	maxLead     = 4 * maxTransaction // what is owed is paid at once or forgotten
)

// next turn it is: short or bulk. While only one of them wants it, that one has it, and nothing is owed after.
func (t *fairShare) next(both, shorts bool) priority {
	if !both {
		t.shortsAhead = 0
	}
	if both && t.shortsAhead <= 0 || !both && shorts {
		return short
	}
	return bulk
}

// record counts n for one while both want it.
func (t *fairShare) record(class priority, n int) {
	if class == bulk {
		n *= -shortWeight
	}
	t.shortsAhead = max(-maxLead, min(t.shortsAhead+n, maxLead))
}
