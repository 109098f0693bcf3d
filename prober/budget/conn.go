package budget

import "probity/engine"

// Conn counts what one connection has carried.
type Conn struct {
	Sent             int // recipients
	Transactions     int // begun; the owner counts them
	pending, refused int
}

// room is what the connection's own limits leave. Jobs leave the last of several transactions to a single call.
func (c *Conn) room(l *engine.Limits, class Class) int {
	n := MaxTransaction
	bound := func(limit, used int) {
		if limit > 0 {
			n = min(n, limit-used)
		}
	}
	bound(l.RecipientsPerTransaction, 0)
	bound(l.RecipientsPerConnection, c.Sent)
	bound(l.RefusalsPerConnection, c.refused+c.pending)
	if t := l.TransactionsPerConnection; t > 0 {
		if class.IsJob() && t > 1 {
			t--
		}
		if c.Transactions >= t {
			return 0
		}
	}
	return max(0, n)
}
