package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"probity/bench/process"
)

// fleet is a coordinator and its probers as processes on this machine, with mutual TLS and gossip over loopback.
type fleet struct {
	*service // the coordinator
	probers  []*process.Process
}

// nodeRecord holds the fields of a node that scenarios use.
type nodeRecord struct {
	Name       string `json:"name"`
	Usable     bool   `json:"usable"`
	Recipients int64  `json:"recipients"`
}

// startFleet starts a coordinator and nodes probers, and waits until all of them accept work.
func startFleet(ctx context.Context, t *Trial, in *internet, nodes int) (f *fleet, err error) {
	if nodes < 1 || nodes > maxNodes {
		return nil, fmt.Errorf("%d nodes: want 1 to %d", nodes, maxNodes)
	}
	certs, err := makeCerts(ctx, t, nodes)
	if err != nil {
		return nil, err
	}
	providers, err := t.writeProviders(0)
	if err != nil {
		return nil, err
	}
	gossip, err := freePort()
	if err != nil {
		return nil, err
	}
	shared := []string{"--certs", certs, "--providers", providers, "--dns", in.dns.String(), "--smtp-port",
		strconv.Itoa(in.smtpPort), "--allow-private-targets"}
	f = &fleet{}
	f.service, err = t.startServer(ctx, serviceConfig{name: "hub"},
		append([]string{"coordinator", "--name", "hub", "--cluster-listen", gossip}, shared...))
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		if err = f.startProber(ctx, t, i+1, gossip, shared); err != nil {
			break
		}
	}
	if err == nil {
		err = f.awaitNodes(ctx, nodes)
	}
	if err != nil {
		return nil, errors.Join(err, f.end())
	}
	return f, nil
}

// makeCerts makes the authority, the gossip key and every node's certificate.
func makeCerts(ctx context.Context, t *Trial, nodes int) (dir string, err error) {
	dir = filepath.Join(t.Dir, "certs")
	line := []string{"certs", "node"}
	for i := range nodes {
		line = append(line, proberName(i+1))
	}
	for _, args := range [][]string{{"certs", "init"}, {"certs", "coordinator", "hub"}, line} {
		if _, err := t.output(ctx, append(args, "--dir", dir)...); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func proberName(n int) string { return "p" + strconv.Itoa(n) }

// startProber starts the n-th prober. It connects from 127.0.1.n; the first also from ::1, of which a machine has only
// one.
func (f *fleet) startProber(ctx context.Context, t *Trial, n int, join string, shared []string) error {
	name := proberName(n)
	args := []string{"prober", "--name", name, "--data", filepath.Join(t.Dir, name), "--join", join, "--mail-from",
		"probe@bench.example",
		"--egress", fmt.Sprintf("127.0.1.%d=%s.bench.example", n, name)}
	if n == 1 && hasIPv6() {
		args = append(args, "--egress", "::1=p1v6.bench.example")
	}
	for _, flag := range []string{"--cluster-listen", "--node-listen", "--admin-listen"} {
		at, err := freePort()
		if err != nil {
			return err
		}
		args = append(args, flag, at)
	}
	p, err := process.Start(ctx, process.Command{Name: name, Binary: t.Binary, Args: append(args, shared...)})
	if err != nil {
		return err
	}
	f.probers = append(f.probers, p)
	return nil
}

// awaitNodes waits until want nodes accept work.
func (f *fleet) awaitNodes(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("the probers: %w", errNotReady))
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		usable := 0
		nodes, err := f.nodes(ctx)
		for _, n := range nodes {
			if n.Usable {
				usable++
			}
		}
		if err == nil && usable == want {
			tick.Stop()
			return nil
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return errors.Join(context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// nodes asks the coordinator for its nodes.
func (f *fleet) nodes(ctx context.Context) ([]nodeRecord, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.admin+"/debug/cluster", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var cluster struct {
		Nodes []nodeRecord `json:"nodes"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&cluster); err != nil {
		return nil, fmt.Errorf("the coordinator's nodes: %w", err)
	}
	return cluster.Nodes, nil
}

// cpus is the CPU time of each prober so far.
func (f *fleet) cpus() (all []time.Duration) {
	for _, p := range f.probers {
		all = append(all, p.CPU())
	}
	return all
}

// end ends the probers, then the coordinator.
func (f *fleet) end() error {
	var errs []error
	for _, p := range f.probers {
		errs = append(errs, p.End())
	}
	return errors.Join(append(errs, f.service.End())...)
}

// freePort returns a loopback address with a port that is free now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
