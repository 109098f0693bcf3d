package persona

// Oddity is how a persona's names look in the DNS.
type Oddity uint8

// The oddities. Those marked "decides" determine the outcome alone, whatever the
// persona's hosts would reply.
const (
	PlainDNS     Oddity = iota // MX and A records as they should be
	NXDomain                   // the domain does not exist; decides
	NoRecords                  // the domain exists, without MX and without address; decides
	NullMX                     // MX 0 . (RFC 7505); decides
	ServFail                   // the domain's zone is broken; decides
	HostServFail               // MX is there, the zone of its hosts is broken; decides
	CNAMELoop                  // the domain is an alias that leads back to itself; decides
	Unroutable                 // MX hosts resolve to 0.0.0.0 and 240.0.0.1 only; decides
	DanglingMX                 // MX hosts do not exist; decides
	ImplicitMX                 // no MX, an address record only (RFC 5321 section 5.1)
	CNAMEDomain                // the domain is an alias of a domain that has the MX
	CNAMEHost                  // the MX host is an alias (forbidden by RFC 2181 section 10.3, but in use)
	TruncatedUDP               // every answer over UDP has TC set and no records; TCP works
	IPv6Only                   // hosts have AAAA [::1] only
	DeadPrimary                // the preferred MX host refuses connections, the next one works
)
