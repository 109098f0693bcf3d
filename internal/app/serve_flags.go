package app

import (
	"errors"
	"fmt"
	"net/netip"

	"probity/api/facade"
	"probity/internal/nodeflags"
	"probity/internal/tlsfront"
	"probity/store"
)

// ServeFlags are the flags of a service.
type ServeFlags struct {
	nodeflags.Probing
	nodeflags.ListChanges
	tlsfront.Flags
	RetainFlags
	RetainCacheFlag
	DeliveryFlags
	TraceFlags
	Data                  string         `help:"Where state, cache and jobs live." default:"./probity-data" type:"path"`
	Listen                string         `help:"The public listener." default:"127.0.0.1:8080"`
	AdminListen           string         `help:"The admin listener: metrics, pprof, debug. Keep it private." default:"127.0.0.1:9090"`
	PublicURL             string         `name:"public-url" help:"How clients reach the server, for links." placeholder:"URL"`
	TrustedProxy          []netip.Prefix `help:"Whose X-Forwarded-For is believed; repeatable." placeholder:"CIDR"`
	CORSOrigin            []string       `name:"cors-origin" help:"A page that may use the public endpoint; repeatable." placeholder:"ORIGIN"`
	CallbackSource        string         `help:"The address that callbacks and fetches of lists leave from, and the one that others see: LOCAL[/PUBLIC]." placeholder:"LOCAL[/PUBLIC]"`
	AllowPrivateCallbacks []netip.Prefix `help:"Private networks that callbacks may go to, and lists may be fetched from; repeatable." placeholder:"CIDR"`
	InitialCredits        int64          `help:"Credits of the admin that an empty store is given." default:"1000000"`
	AdminEmail            string         `help:"E-mail of that admin." default:"admin@localhost.localdomain"`
	FirstKey              string         `help:"New file for an API key of that admin, with all scopes." type:"path" placeholder:"FILE"`
	Facades               []string       `help:"Other verifiers whose clients may call the server: zerobounce, neverbounce, kickbox, reacher." sep:"," placeholder:"NAME,..."`
	PublishDocs           bool           `help:"Serve /docs and /openapi.json." default:"true" negatable:""`
	PublicPerDay          int            `help:"Anonymous verifications a day, of all clients together." default:"1000"`
	DiskFloor             int64          `help:"Free bytes below which uploads are refused." default:"1073741824"`
	LogFormat             string         `help:"text or json." enum:"text,json" default:"text"`
}

// Validate is called by the parser. It refuses a zero that would be taken for the default.
func (s *ServeFlags) Validate() error {
	switch {
	case s.InitialCredits < 0:
		return fmt.Errorf("--initial-credits %d: give a number from 0", s.InitialCredits)
	case s.PublicPerDay < 1:
		return fmt.Errorf("--public-per-day %d: give a number from 1", s.PublicPerDay)
	case s.DiskFloor < 1:
		return fmt.Errorf("--disk-floor %d: give a number of bytes from 1", s.DiskFloor)
	}
	if err := store.CheckEmail(s.AdminEmail); err != nil {
		return fmt.Errorf("--admin-email %q: give an address such as ann@example.com", s.AdminEmail)
	}
	public, admins := s.listeners()
	errs := []error{public.check(), admins.check(), public.checkApart(admins)}
	if s.PublicURL != "" {
		errs = append(errs, checkURL("public-url", s.PublicURL, "https", "http"))
	}
	for _, origin := range s.CORSOrigin {
		errs = append(errs, checkOrigin(origin))
	}
	if _, err := facade.New(s.Facades); err != nil {
		errs = append(errs, fmt.Errorf("--facades: %w", err))
	}
	for _, name := range s.ACMEDomain {
		errs = append(errs, checkName("acme-domain", name))
	}
	if s.ACMEDirectory != "" {
		errs = append(errs, checkURL("acme-directory", s.ACMEDirectory, "https"))
	}
	return errors.Join(append(errs, s.Probing.Validate(), s.RetainFlags.check(), s.RetainCacheFlag.check(),
		s.DeliveryFlags.check(), s.TraceFlags.check())...)
}

func (s *ServeFlags) listeners() (public, admins listenFlag) {
	return listenFlag{"listen", s.Listen}, listenFlag{"admin-listen", s.AdminListen}
}

// CoordinatorFlags are those of a service without a prober, and of a member of a cluster: other nodes probe.
type CoordinatorFlags struct {
	ServeFlags
	memberFlags
}

// Validate is called by the parser.
func (c *CoordinatorFlags) Validate() error {
	return errors.Join(c.ServeFlags.Validate(), c.memberFlags.Validate(), c.gossipListener().checkApart(c.listeners()))
}
