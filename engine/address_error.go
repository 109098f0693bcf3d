package engine

// SyntaxKind says which rule a string breaks.
type SyntaxKind uint8

// The kinds; the zero value is never returned.
const (
	KindNone        SyntaxKind = iota
	KindEmpty                  // an empty string
	KindNoAt                   // no "@"
	KindExtraAt                // an "@" in the domain
	KindLength                 // local part over 64, label over 63, domain over 253 or mailbox over 254 octets
	KindSpace                  // white space outside quotes
	KindControl                // a control character
	KindInvisible              // a character that cannot be seen or is not assigned
	KindEncoding               // not UTF-8, or the replacement character of a lost encoding
	KindComment                // a comment of RFC 5322, which SMTP does not have
	KindLocal                  // a local part that is neither dot-string nor quoted string
	KindQuoted                 // a broken quoted string
	KindDots                   // a dot at an edge, or two in a row
	KindDomain                 // a domain that is not a host name
	KindIDN                    // a label that IDNA2008 refuses
	KindDotless                // a domain of one label
	KindTrailingDot            // a final dot
	KindLiteral                // an address literal
)

var kindNames = [...]string{"none", "empty", "no_at", "extra_at", "length", "space", "control", "invisible", "encoding",
	"comment",
	"local", "quoted", "dots", "domain", "idn", "dotless", "trailing_dot", "literal"}

func (k SyntaxKind) String() string { return nameOf(kindNames[:], uint8(k)) }

// SyntaxError says why a string is not an address. Detail says what is wrong and what to do, without quoting the
// address.
type SyntaxError struct {
	Kind   SyntaxKind
	Detail string
}

func (e SyntaxError) Error() string { return e.Detail }

func bad(k SyntaxKind, detail string) error { return SyntaxError{Kind: k, Detail: detail} }

func tooLong() error {
	return bad(KindLength, "the address is longer than 254 octets; no server can take it (RFC 5321 section 4.5.3.1.3)")
}
