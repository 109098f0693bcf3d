package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"

	"probity/coordinator/cluster"
	"probity/internal/certs"
	"probity/internal/console"
)

// memberFlags are the flags of the members of a cluster.
type memberFlags struct {
	Name             string   `help:"This machine's name in the cluster, as in its certificate; default: the host's name." placeholder:"NAME"`
	Join             []string `help:"Members to join, HOST:PORT,...; one that is up will do." placeholder:"HOST:PORT"`
	ClusterListen    string   `help:"Listen address of gossip, TCP and UDP." default:"0.0.0.0:7946"`
	ClusterAdvertise string   `help:"Advertised gossip address, if different." placeholder:"HOST:PORT"`
	ClusterLabel     string   `help:"The cluster's name: members of another are ignored." default:"probity"`
	Certs            string   `help:"Folder with NAME.crt, NAME.key, ca.crt and cluster.key, as probity certs makes them." default:"./probity-certs" type:"path"`
	NodeCert         string   `help:"Our certificate towards other members; default: NAME.crt of --certs." type:"path" placeholder:"FILE"`
	NodeKey          string   `help:"Its key; default: NAME.key of --certs." type:"path" placeholder:"FILE"`
	NodeCA           string   `name:"node-ca" help:"The authority's certificate; default: ca.crt of --certs." type:"path" placeholder:"FILE"`
	ClusterKey       string   `help:"The gossip keys; default: cluster.key of --certs." type:"path" placeholder:"FILE"`
}

// Validate is called by the parser.
func (f *memberFlags) Validate() error {
	errs := []error{f.gossipListener().check()}
	if f.ClusterAdvertise != "" {
		errs = append(errs, checkHostPort("cluster-advertise", f.ClusterAdvertise))
	}
	for _, at := range f.Join {
		errs = append(errs, checkHostPort("join", at))
	}
	return errors.Join(errs...)
}

func (f *memberFlags) gossipListener() listenFlag {
	return listenFlag{"cluster-listen", f.ClusterListen}
}

// setDefaults fills in the defaults and refuses a name that no certificate can have.
func (f *memberFlags) setDefaults() error {
	if f.Name == "" {
		f.Name = strings.ToLower(console.HostName())
	}
	if err := certs.ValidName(f.Name); err != nil {
		return fmt.Errorf("--name: %w", err)
	}
	for file, name := range map[*string]string{&f.NodeCert: f.Name + ".crt", &f.NodeKey: f.Name + ".key",
		&f.NodeCA: certs.AuthorityFile, &f.ClusterKey: certs.KeyFile} {
		if *file == "" {
			*file = filepath.Join(f.Certs, name)
		}
	}
	return nil
}

// loadTLS loads our certificate, which must be for the given use, and the authority of the cluster.
func (f *memberFlags) loadTLS(use x509.ExtKeyUsage, part string) (tls.Certificate, *x509.CertPool, error) {
	makes := "probity certs node " + f.Name
	if use == x509.ExtKeyUsageClientAuth {
		makes = "probity certs coordinator " + f.Name
	}
	own, authority, err := certs.LoadTLS(f.NodeCert, f.NodeKey, f.NodeCA)
	if errors.Is(err, fs.ErrNotExist) {
		return own, nil, fmt.Errorf("%w; probity certs init and %s make them, and --certs names their folder", err,
			makes)
	}
	if err != nil {
		return own, nil, err
	}
	if err := own.Leaf.VerifyHostname(f.Name); err != nil {
		return own, nil, fmt.Errorf("certificate %s is not %s's: %w; name the machine with --name, or make its certificate with probity certs", f.NodeCert, f.Name, err)
	}
	for _, has := range own.Leaf.ExtKeyUsage {
		if has == use {
			return own, authority, nil
		}
	}
	return own, nil, fmt.Errorf("certificate %s is a %s's, this is a %s: make one with %s", f.NodeCert,
		certs.RoleOf(own.Leaf), part, makes)
}

// newGossip makes our membership of the cluster. Its sockets are open when it returns; Run closes them.
func (f *memberFlags) newGossip(role cluster.Role, streams, version string,
	log *slog.Logger) (*cluster.Cluster, *memberlist.NetTransport, error) {
	keys, err := certs.ReadKeys(f.ClusterKey)
	if err != nil {
		return nil, nil, err
	}
	at, err := netip.ParseAddrPort(f.ClusterListen)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: --cluster-listen %q; write ADDRESS:PORT", console.ErrUsage, f.ClusterListen)
	}
	host, port, err := f.advertised()
	if err != nil {
		return nil, nil, err
	}
	transport, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{at.Addr().String()},
		BindPort: int(at.Port()),
		Logger:   slog.NewLogLogger(log.Handler(), slog.LevelWarn)})
	if err != nil {
		return nil, nil, fmt.Errorf("--cluster-listen: %w", err)
	}
	if port == 0 {
		port = transport.GetAutoBindPort()
	}
	c, err := cluster.New(cluster.Config{Name: f.Name, Role: role, Listen: streams, Version: version,
		Transport: transport, Advertise: host, Port: port,
		Label: f.ClusterLabel, Keys: keys, Seeds: f.Join, Log: log})
	if err != nil {
		return nil, nil, errors.Join(err, transport.Shutdown())
	}
	return c, transport, nil
}

// advertised resolves --cluster-advertise: gossip needs an IP address.
func (f *memberFlags) advertised() (host string, port int, err error) {
	if f.ClusterAdvertise == "" {
		return "", 0, nil
	}
	at, err := net.ResolveTCPAddr("tcp", f.ClusterAdvertise)
	if err != nil || at.IP == nil {
		return "", 0, fmt.Errorf("%w: --cluster-advertise %q; write HOST:PORT", console.ErrUsage, f.ClusterAdvertise)
	}
	return at.IP.String(), at.Port, nil
}

// reloadKeys reads the gossip keys again.
func (f *memberFlags) reloadKeys(c *cluster.Cluster) error {
	keys, err := certs.ReadKeys(f.ClusterKey)
	if err != nil {
		return err
	}
	return c.SetKeys(keys)
}

// dialStream connects to a node.
func dialStream(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	return d.DialContext(ctx, "tcp", address)
}
