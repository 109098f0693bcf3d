package app

import (
	"crypto/x509"
	"errors"

	"google.golang.org/grpc/credentials"

	"probity/coordinator/cluster"
	"probity/coordinator/fleet"
	"probity/internal/datafolder"
	"probity/prober/wire"
	"probity/prober/wire/stream"
)

// remoteProbers is the cluster side of a coordinator: gossip finds the nodes, and streams make them one prober.
type remoteProbers struct {
	*fleet.Fleet
	members      *memberFlags
	cluster      *cluster.Cluster
	closeSockets func() error // closes the sockets of a cluster that never ran
}

func (f *memberFlags) newFleet(n *Node, cfg NodeConfig) (*remoteProbers, error) {
	own, authority, err := f.loadTLS(x509.ExtKeyUsageClientAuth, "coordinator")
	if err != nil {
		return nil, err
	}
	id, term, err := datafolder.NextTerm(cfg.Dir, f.Name)
	if err != nil {
		return nil, err
	}
	gossip, transport, err := f.newGossip(cluster.RoleCoordinator, "", cfg.Version, cfg.Log)
	if err != nil {
		return nil, err
	}
	out := &remoteProbers{members: f, cluster: gossip, closeSockets: transport.Shutdown}
	out.Fleet, err = fleet.New(fleet.Config{Cluster: gossip, Coordinator: wire.Coordinator{ID: id, Term: term},
		Version: cfg.Version,
		Table:   n.activeTable.Load, Dial: dialStream, Log: cfg.Log, Metrics: cfg.metrics, Disk: cfg.FS, Dir: cfg.Dir,
		Credentials: func(node string) credentials.TransportCredentials {
			return stream.ClientTLS(own, authority,
				node)
		},
		Suppressed: n.suppressedDomain, SuppressedAddress: n.suppressedAddress})
	if err != nil {
		return nil, errors.Join(err, transport.Shutdown())
	}
	cfg.Log.Info("coordinating", "coordinator", id, "term", term, "gossip", f.ClusterListen, "join", f.Join)
	return out, nil
}
