package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"probity/engine"
	"probity/internal/apiclient"
	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/internal/providerview"
)

type routeCmd struct {
	nodeflags.Probing
	Domain string `arg:"" help:"The domain, as in an address; or an address. With --admin the answer names the source that asks for that address."`
	Admin  string `help:"The admin listener of a server or coordinator, to have its answer: that of its resolvers, its provider table and its identities." placeholder:"HOST:PORT"`
	JSON   bool   `name:"json" help:"One JSON object."`
}

// Run shows the MX set, route, provider, owner and limits of the domain.
func (c *routeCmd) Run(ctx context.Context, con *console.IO) error {
	domain, err := engine.ParseDomain(c.Domain[strings.LastIndexByte(c.Domain, '@')+1:])
	if err != nil {
		return fmt.Errorf("%w: %s: %v", console.ErrUsage, c.Domain, err)
	}
	explain, of, resolvers := c.ownRoute, domain, "--dns and its resolvers"
	if c.Admin != "" {
		explain, of, resolvers = c.nodeRoute, c.Domain, "--dns of the process at "+c.Admin+" and its resolvers"
	}
	route, err := explain(ctx, of)
	switch {
	case err != nil:
		return err
	case route.LookupFailed():
		return fmt.Errorf("%s could not be looked up (%s): check %s, then repeat", domain, route.Fact, resolvers)
	case c.JSON:
		return json.NewEncoder(con.Out).Encode(route)
	}
	return printRoute(con, &route)
}

// ownRoute looks the domain up from this machine, as the flags say.
func (c *routeCmd) ownRoute(ctx context.Context, domain string) (v providerview.Route, err error) {
	table, err := c.Table()
	if err != nil {
		return v, err
	}
	resolver, err := c.Resolver(table)
	if err != nil {
		return v, err
	}
	resolverCtx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- resolver.Run(resolverCtx) }()
	route := resolver.Route(ctx, domain)
	stop()
	if err := <-ended; err != nil {
		return v, err
	}
	ids, err := c.Identities()
	if err != nil {
		return v, err
	}
	v = providerview.NewRoute(domain, &route, c.whyNotPublic())
	if len(ids) == 1 {
		v.Owner = ids[0].Name()
	}
	return v, nil
}

// whyNotPublic says why no public mail server would be asked; "" if they would be.
func (c *routeCmd) whyNotPublic() string {
	if c.Anonymous() {
		return nodeflags.WhyNotAnonymous + "; give those of your node, or --admin"
	}
	return ""
}

func printRoute(con *console.IO, f *providerview.Route) error {
	w := tabwriter.NewWriter(con.Out, 0, 0, 2, ' ', 0)
	asked, from := "yes", "asked from"
	if !f.Asked {
		asked, from = "no: "+f.WhyNot, "would be asked from"
	}
	row := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }
	row("domain", f.Domain)
	row("DNS says", f.Fact)
	row("mail hosts", console.OrDash(strings.Join(f.MX, " ")))
	row("route", console.OrDash(f.Key))
	row("provider", console.OrDash(f.Provider))
	row("kind", f.Kind)
	row("accepts anything", f.AcceptAll)
	row("asked at all", asked)
	row(from, console.OrDash(f.Owner))
	for _, key := range slices.Sorted(maps.Keys(f.Limits)) { // another version may send other limits
		row(strings.ReplaceAll(key, "_", " "), f.Limits[key])
	}
	row("source", console.OrDash(f.Source))
	row("read on", console.OrDash(f.Date))
	return w.Flush()
}

// nodeTimeout bounds the request to a node, which may look the domain up.
const nodeTimeout = 15 * time.Second

// nodeRoute asks the node of the admin listener for a domain or an address: sources may share the addresses of a
// domain.
func (c *routeCmd) nodeRoute(ctx context.Context, of string) (v providerview.Route, err error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	body, err := apiclient.ForAdminListener(c.Admin, "a server or coordinator").Call(ctx, http.MethodGet,
		"/debug/route?of="+url.QueryEscape(of), "", nil)
	if err != nil {
		return v, err
	}
	defer body.Close()
	if err = json.NewDecoder(body).Decode(&v); err != nil {
		return v, fmt.Errorf("the answer of %s: %w", c.Admin, err)
	}
	return v, nil
}
