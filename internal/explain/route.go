package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"probity/engine"
	"probity/internal/apiclient"
	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/internal/providerview"
)

// routeFacts is the output of explain route. A limit of zero means none.
type routeFacts struct {
	Domain    string         `json:"domain"`
	Fact      string         `json:"fact"`
	MX        []string       `json:"mx"`
	Key       string         `json:"key"`
	Provider  string         `json:"provider"`
	Wide      bool           `json:"wide"`
	Kind      string         `json:"kind"`
	AcceptAll bool           `json:"accept_all"`
	Probe     bool           `json:"probe"` // as the table says
	Asked     bool           `json:"asked"` // by this node, as it is configured
	WhyNot    string         `json:"not_asked_because"`
	Owner     string         `json:"owner"`
	Limits    map[string]int `json:"limits"`
	Source    string         `json:"source"`
	Date      string         `json:"date"`

	limits engine.Limits
}

type routeCmd struct {
	nodeflags.Probing
	Domain string `arg:"" help:"The domain, as in an address; or an address, for its domain."`
	Admin  string `help:"The admin listener of a coordinator, to ask it for the owner." placeholder:"HOST:PORT"`
	JSON   bool   `name:"json" help:"One JSON object."`
}

// Run looks the domain up and shows its MX set, route, provider, owner and limits.
func (c routeCmd) Run(ctx context.Context, con *console.IO) error {
	domain, err := engine.ParseDomain(c.Domain[strings.LastIndexByte(c.Domain, '@')+1:])
	if err != nil {
		return fmt.Errorf("%w: %s: %v", console.ErrUsage, c.Domain, err)
	}
	table, err := c.Table()
	if err != nil {
		return err
	}
	resolver, err := c.Resolver(table)
	if err != nil {
		return err
	}
	resolverCtx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- resolver.Run(resolverCtx) }()
	route := resolver.Route(ctx, domain)
	stop()
	if err := <-ended; err != nil {
		return err
	}
	ids, err := c.Identities()
	if err != nil {
		return err
	}
	facts := newRouteFacts(domain, route)
	facts.WhyNot = c.whyNotAsked(&route)
	facts.Asked = facts.WhyNot == ""
	if len(ids) == 1 {
		facts.Owner = ids[0].Name()
	}
	if c.Admin != "" {
		if facts.Owner, err = fetchOwner(ctx, c.Admin, domain); err != nil {
			return err
		}
	}
	if c.JSON {
		return json.NewEncoder(con.Out).Encode(facts)
	}
	return printRoute(con, &facts)
}

func newRouteFacts(domain string, r engine.Route) routeFacts {
	p := r.Provider
	f := routeFacts{Domain: domain, Fact: r.Fact.String(), MX: r.MX, Key: r.Key, Provider: p.Name, Wide: p.Kind == engine.KindWide, Kind: p.Kind.String(), AcceptAll: p.AcceptAll,
		Probe: p.Probe, Limits: providerview.LimitMap(p.Limits), limits: p.Limits, Source: p.Source, Date: p.Date}
	if f.Provider == "" && r.Fact.Routable() {
		f.Provider = "other"
	}
	if f.MX == nil {
		f.MX = []string{}
	}
	return f
}

// whyNotAsked says why no mail server would be asked about an address of the domain; "" if one would be.
func (c *routeCmd) whyNotAsked(r *engine.Route) string {
	switch p := r.Provider; {
	case !r.Fact.Routable():
		return "DNS says " + r.Fact.String() + ": there is no host to ask"
	case !p.Probe:
		return "the provider table says probe = off"
	case p.AcceptAll:
		return "it accepts anything: an answer would prove nothing"
	case c.Admin == "" && !c.AllowPrivateTargets && (c.MailFrom == "" || len(c.Egress) == 0):
		return "public mail servers are asked with --egress and --mail-from only; give those of your node, or --admin"
	}
	return ""
}

func printRoute(con *console.IO, f *routeFacts) error {
	w := tabwriter.NewWriter(con.Out, 0, 0, 2, ' ', 0)
	l := f.limits
	asked, from := "yes", "asked from"
	if !f.Asked {
		asked, from = "no: "+f.WhyNot, "would be asked from"
	}
	for _, row := range []struct {
		name  string
		value any
	}{
		{"domain", f.Domain}, {"DNS says", f.Fact}, {"mail hosts", console.OrDash(strings.Join(f.MX, " "))}, {"route", console.OrDash(f.Key)},
		{"provider", console.OrDash(f.Provider)}, {"kind", f.Kind}, {"accepts anything", f.AcceptAll}, {"asked at all", asked},
		{from, console.OrDash(f.Owner)},
		{"connections", l.Connections}, {"connections a minute", l.ConnectionsPerMinute}, {"recipients a minute", l.RecipientsPerMinute},
		{"recipients a transaction", l.RecipientsPerTransaction}, {"recipients a connection", l.RecipientsPerConnection},
		{"transactions a connection", l.TransactionsPerConnection}, {"refusals a connection", l.RefusalsPerConnection},
		{"refusals an hour", l.RefusalsPerHour}, {"source", console.OrDash(f.Source)}, {"read on", console.OrDash(f.Date)},
	} {
		fmt.Fprintf(w, "%s\t%v\n", row.name, row.value)
	}
	return w.Flush()
}

// ownerTimeout bounds the request to a coordinator.
const ownerTimeout = 15 * time.Second

// fetchOwner asks a coordinator's admin listener which node owns a domain or an address.
func fetchOwner(ctx context.Context, listener, what string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	body, err := apiclient.ForAdminListener(listener, "a coordinator").Call(ctx, http.MethodGet, "/debug/owner?of="+url.QueryEscape(what), "", nil)
	if err != nil {
		return "", err
	}
	defer body.Close()
	var answer struct{ Owner string }
	return answer.Owner, json.NewDecoder(body).Decode(&answer)
}
