package prober

// turns shares what both short and long jobs want: of each part for the long ones the short ones have shortShare. So a long
// job that has every budget to itself takes a third longer at the most while short ones last, and a short one takes a third
// longer with it than alone, whatever the number of its rows.
type turns struct{ ahead int } // what the short ones have had above their share; of longs counted shortShare times

const (
	shortShare = 3
	maxAhead   = 4 * maxTransaction // what is owed is paid at once or forgotten
)

// whose turn it is: short or bulk. While only one of them wants it, that one has it, and nothing is owed after.
func (t *turns) whose(both, shorts bool) priority {
	if !both {
		t.ahead = 0
	}
	if both && t.ahead <= 0 || !both && shorts {
		return short
	}
	return bulk
}

// took counts n for one while both want it.
func (t *turns) took(who priority, n int) {
	if who == bulk {
		n *= -shortShare
	}
	t.ahead = max(-maxAhead, min(t.ahead+n, maxAhead))
}
