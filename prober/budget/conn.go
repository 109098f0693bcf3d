package budget

// Conn counts what one connection has carried.
type Conn struct {
	Sent             int // recipients
	Transactions     int // begun
	pending, refused int
}
