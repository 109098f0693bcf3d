package service_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/tests/harness"
)

// newFleetTestbed is a coordinator and two probers, with a link to each that can be cut.
func newFleetTestbed(t *testing.T, k tortureRun, stage uint64) *testbed {
	p := newTestbed(t, k, stage)
	for _, line := range [][]string{{"init"}, {"coordinator", "hub"}, {"node", "p0", "p1"}} {
		words, err := harness.Command(t.Context(),
			append(append([]string{"certs"}, line...), "--dir", p.path("certs"))...).CombinedOutput()
		require.NoError(t, err, "%s", words)
	}
	coord := hostPort(p.ip(2), 7946) // the link to the coordinator, which every prober knows
	admin := hostPort(p.ip(1), 9090)
	p.supervise("hub", admin, append([]string{"coordinator", "--name", "hub", "--data", p.data, "--certs",
		p.path("certs"), "--listen", hostPort(p.ip(1), 8080),
		"--admin-listen", admin, "--cluster-listen", hostPort(p.ip(1), 7946), "--cluster-advertise", coord,
		"--disk-floor", "1"}, p.commonFlags()...))
	newLink(t, coord, hostPort(p.ip(1), 7946), true)
	for n := range 2 {
		p.addProber(n, coord)
	}
	p.faultKinds = []faultKind{faultKill, faultKill, faultBitFlip, faultFileLost, faultStop, faultStop, faultTerm,
		faultReload, faultLowMemory, faultNoDescriptors, faultDiskFail, faultDiskPersist, faultDiskFull,
		faultDiskSlow, faultDNS, faultDNS, faultDNS, faultSMTPHalfOpen, faultSMTPReset, faultSMTPReset,
		faultSMTPRefused, faultSlowClients, faultStreamCut, faultStreamCut, faultStreamReset, faultStreamReset,
		faultGossipCut, faultNodeCutOff}
	return p
}

func (p *testbed) addProber(n int, coord string) {
	own, linkIP, egress := p.ip(10+n), p.ip(20+n), p.ip(30+n)
	admin := hostPort(own, 9090)
	mail := newMailRelay(p.t, hostPort(p.ip(5+n), 1080))
	p.mailRelays = append(p.mailRelays, mail)
	p.streamLinks = append(p.streamLinks, newLink(p.t, hostPort(linkIP, 7947), hostPort(own, 7947), false))
	p.gossipLinks = append(p.gossipLinks, newLink(p.t, hostPort(linkIP, 7946), hostPort(own, 7946), true))
	name := fmt.Sprintf("p%d", n)
	p.supervise(name, admin, append([]string{"prober", "--name", name, "--data", p.path(name), "--certs",
		p.path("certs"), "--join", coord, "--admin-listen", admin,
		"--cluster-listen", hostPort(own, 7946), "--cluster-advertise", hostPort(linkIP, 7946),
		"--node-listen", hostPort(own, 7947), "--node-advertise", hostPort(linkIP, 7947),
		"--mail-from", "probe@prober.example", "--egress", egress + "=mx.prober.example", "--socks5",
		mail.listener.Addr().String()}, p.commonFlags()...))
}

// openSlowClients opens clients that start requests and never finish them: half a header, half a body, or nothing.
func (p *testbed) openSlowClients(ctx context.Context, f fault) bool {
	half := []string{"", "POST /v1/verify/single HTTP/1.1\r\nHost: x\r\nAuth",
		strings.Join([]string{"POST /v1/verify/bulk HTTP/1.1", "Host: x",
			"Authorization: Bearer " + p.client.key, "Content-Type: multipart/form-data; boundary=b",
			"Content-Length: 1000000", "",
			"--b", `Content-Disposition: form-data; name="file"; filename="l.csv"`, "", "email", "half@"}, "\r\n")}
	var all []net.Conn
	for i := range 5 + int(f.random%20) {
		c, err := net.Dial("tcp", hostPort(p.ip(1), 8080))
		if err != nil {
			continue
		}
		_, _ = c.Write([]byte(half[i%len(half)])) // a refused client is no further load
		all = append(all, c)
	}
	sleepCtx(ctx, f.duration)
	for i, c := range all {
		if i%2 == 0 {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		_ = c.Close()
	}
	return len(all) > 0
}
