package explain

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/internal/providerview"
)

// TestExplainRouteSaysWhyARouteIsNotProbed: a provider with probe = on may still not be probed.
func TestExplainRouteSaysWhyARouteIsNotProbed(t *testing.T) {
	configured := routeCmd{Probing: nodeflags.Probing{MailFrom: "probe@us.example",
		Egress: []nodeflags.Egress{"192.0.2.1=mx.us.example"}}}
	unconfigured := routeCmd{}
	known := func(p engine.Provider) engine.Route { return engine.Route{Fact: engine.FactMX, Provider: &p} }
	for _, c := range []struct {
		cmd   routeCmd
		route engine.Route
		want  string
	}{
		{configured, known(engine.Provider{Probe: true}), "yes"},
		{configured, known(engine.Provider{}), "no: the provider table says probe = off"},
		{configured, known(engine.Provider{Probe: true, AcceptAll: true}), "no: it accepts anything"},
		{configured, engine.Route{Fact: engine.FactNoDomain, Provider: &engine.Provider{Probe: true}},
			"no: DNS says no_domain: there is no host to ask"},
		{configured, engine.Route{Fact: engine.FactNullMX, Provider: &engine.Provider{Probe: true}},
			"no: DNS says null_mx"},
		{unconfigured, known(engine.Provider{Probe: true}),
			"no: public mail servers are asked with --egress and --mail-from only"},
		{routeCmd{Probing: nodeflags.Probing{AllowPrivateTargets: true}}, known(engine.Provider{Probe: true}), "yes"},
	} {
		facts := providerview.NewRoute("a.example", &c.route, c.cmd.whyNotPublic())
		facts.Owner = "n1/192.0.2.1"
		var out bytes.Buffer
		require.NoError(t, printRoute(&console.IO{Out: &out}, &facts))
		require.Regexp(t, `(?m)^asked at all +`+c.want, out.String())
		from := "would be asked from"
		if facts.Asked {
			from = "asked from"
		}
		require.Regexp(t, `(?m)^`+from+` +n1/192.0.2.1$`, out.String())
	}
}

// TestExplainRouteShowsTheLimitsThatTheNodeHas: of a node of another version, no limit is shown that it did not send.
func TestExplainRouteShowsTheLimitsThatTheNodeHas(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, printRoute(&console.IO{Out: &out},
		&providerview.Route{Limits: map[string]int{"connections": 3, "pipelines_per_day": 7}}))
	require.Regexp(t, `(?m)^connections +3\npipelines per day +7\nsource +-$`, out.String())
	require.NotContains(t, out.String(), "recipients")
}

// TestExplainRouteAsksTheNodeForTheAddress: the answer may be another for each address of a domain.
func TestExplainRouteAsksTheNodeForTheAddress(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(providerview.Route{Owner: "the owner of " + r.URL.Query().Get("of")})
	}))
	defer node.Close()
	for _, of := range []string{"ann+news@gmail.com", "gmail.com"} {
		var out bytes.Buffer
		c := routeCmd{Domain: of, Admin: node.Listener.Addr().String()}
		require.NoError(t, c.Run(t.Context(), &console.IO{Out: &out}))
		require.Contains(t, out.String(), "the owner of "+of+"\n")
	}
}
