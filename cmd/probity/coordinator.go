package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"

	"probity/coordinator/cluster"
	"probity/coordinator/fleet"
	"probity/engine"
	"probity/internal/console"
	"probity/internal/datafolder"
	"probity/prober"
	"probity/prober/wire"
)

// coordinatorCmd is serve without its prober: other nodes probe.
type coordinatorCmd struct {
	serveCmd
	memberFlags
}

// Validate is called by the parser.
func (c *coordinatorCmd) Validate() error {
	return errors.Join(c.serveCmd.Validate(), c.memberFlags.Validate())
}

// Run serves until ctx ends.
func (c *coordinatorCmd) Run(ctx context.Context, con *console.IO) error {
	if len(c.Egress) > 0 || c.SOCKS5 != "" || c.MailFrom != "" {
		return fmt.Errorf("%w: --egress, --mail-from and --socks5 belong to probity prober; a coordinator asks no mail server", console.ErrUsage)
	}
	if c.RetainCache != 0 {
		return fmt.Errorf("%w: --retain-cache belongs to probity prober; a coordinator has no cache", console.ErrUsage)
	}
	if err := c.setDefaults(); err != nil {
		return err
	}
	s := &service{cmd: &c.serveCmd, flags: c, log: serverLog(con, c.LogFormat), disk: con.Files(), registry: prometheus.NewRegistry(), members: &c.memberFlags}
	return s.serve(ctx, con)
}

// remoteProbers is the cluster side of a coordinator: gossip finds the nodes, and streams make them one prober.
type remoteProbers struct {
	*fleet.Fleet
	members      *memberFlags
	cluster      *cluster.Cluster
	closeSockets func() error // closes the sockets of a cluster that never ran
}

func (f *memberFlags) newFleet(n *node, cfg nodeConfig) (*remoteProbers, error) {
	own, authority, err := f.loadTLS(x509.ExtKeyUsageClientAuth, "coordinator")
	if err != nil {
		return nil, err
	}
	id, term, err := datafolder.NextTerm(cfg.dir, f.Name)
	if err != nil {
		return nil, err
	}
	gossip, transport, err := f.newGossip(cluster.RoleCoordinator, "", cfg.log)
	if err != nil {
		return nil, err
	}
	out := &remoteProbers{members: f, cluster: gossip, closeSockets: transport.Shutdown}
	out.Fleet, err = fleet.New(fleet.Config{Cluster: gossip, Coordinator: wire.Coordinator{ID: id, Term: term}, Version: version,
		Table: n.activeTable.Load, Dial: dialStream, Log: cfg.log, Metrics: cfg.metrics, Disk: cfg.fs, Dir: cfg.dir,
		Credentials: func(node string) credentials.TransportCredentials { return wire.ClientTLS(own, authority, node) },
		Suppressed:  n.suppressedDomain, SuppressedAddress: n.suppressedAddress})
	if err != nil {
		return nil, errors.Join(err, transport.Shutdown())
	}
	cfg.log.Info("coordinating", "coordinator", id, "term", term, "gossip", f.ClusterListen, "join", f.Join)
	return out, nil
}

// report is what probity cluster shows.
func (n *node) report() fleet.ClusterReport {
	if n.fleet != nil {
		return n.fleet.Report()
	}
	self := selfReport(audited(n.prober.Status(), n.audit), n.prober, &n.rowRate)
	self.Name, self.Since = console.HostName(), n.startedAt
	return fleet.ClusterReport{Coordinator: console.HostName(), Nodes: []fleet.NodeReport{self}}
}

// nodeViews is what operators can see of the nodes and do with them.
func (n *node) nodeViews() fleet.Views {
	if n.fleet != nil {
		return n.fleet
	}
	return fleet.LocalViews{Node: console.HostName(), Views: n.prober}
}

// selfReport is a prober as its own process sees it.
func selfReport(s wire.Status, p *prober.Prober, throughput *rateMeter) fleet.NodeReport {
	s.RowsPerSecond = throughput.rate(s.Answered)
	self := fleet.NodeReport{Version: version, State: cluster.Alive.String(), Usable: true, Rows: s.Rows}
	for _, id := range identitiesOf(p) {
		self.Identities = append(self.Identities, fleet.IdentityReport{Name: id.Name, Local: id.Local, Public: id.Public, EHLO: id.EHLO})
	}
	self.SetStatus(s)
	return self
}

// ownerOf says which node probes a domain or an address.
func (n *node) ownerOf(ctx context.Context, what string) (string, error) {
	domain, address, err := parseDomainOrAddress(what)
	if err != nil {
		return "", err
	}
	route := n.resolver.Route(ctx, domain)
	switch {
	case !route.Fact.Routable():
		return "", nil
	case n.fleet == nil:
		return console.HostName(), nil
	case address == (engine.Address{}) && route.Provider.Kind == engine.KindWide && slices.Contains(route.Provider.ByAddress, domain):
		return "each address has its own", nil
	case address == (engine.Address{}):
		if address, err = engine.Parse("postmaster@" + domain); err != nil {
			return "", err
		}
	}
	identity, node := n.fleet.Owner(&route, address)
	if identity == "" {
		return "none: no prober is connected", nil
	}
	return identity + " at " + node, nil
}
