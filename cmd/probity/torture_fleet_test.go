package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newFleetPlant is a coordinator and two probers, with a cable to each that can be cut.
func newFleetPlant(t *testing.T, k torment, stage uint64) *plant {
	p := newPlant(t, k, stage)
	for _, line := range [][]string{{"init"}, {"coordinator", "hub"}, {"node", "p0", "p1"}} {
		words, err := command(t.Context(), append(append([]string{"certs"}, line...), "--dir", p.at("certs"))...).CombinedOutput()
		require.NoError(t, err, "%s", words)
	}
	hub := hostPort(p.ip(2), 7946) // the cable to the coordinator, which every prober knows
	admin := hostPort(p.ip(1), 9090)
	p.keep("hub", admin, append([]string{"coordinator", "--name", "hub", "--data", p.data, "--certs", p.at("certs"), "--listen", hostPort(p.ip(1), 8080),
		"--admin-listen", admin, "--cluster-listen", hostPort(p.ip(1), 7946), "--cluster-advertise", hub, "--disk-floor", "1"}, p.common()...))
	newLink(t, hub, hostPort(p.ip(1), 7946), true)
	for n := range 2 {
		p.addProber(n, hub)
	}
	p.kinds = []blow{blowKill, blowKill, blowFlip, blowLose, blowStop, blowStop, blowTerm, blowReload, blowMemory, blowFiles, blowDiskFail, blowDiskPersist, blowDiskFull,
		blowDiskSlow, blowNames, blowNames, blowNames, blowHalfOpen, blowReset, blowReset, blowRefuse, blowLoris, blowCut, blowCut, blowBreak, blowBreak,
		blowGossip, blowIsland}
	return p
}

func (p *plant) addProber(n int, hub string) {
	own, cable, egress := p.ip(10+n), p.ip(20+n), p.ip(30+n)
	admin := hostPort(own, 9090)
	mail := newMailRelay(p.t, hostPort(p.ip(5+n), 1080))
	p.mails = append(p.mails, mail)
	p.streams = append(p.streams, newLink(p.t, hostPort(cable, 7947), hostPort(own, 7947), false))
	p.gossip = append(p.gossip, newLink(p.t, hostPort(cable, 7946), hostPort(own, 7946), true))
	name := fmt.Sprintf("p%d", n)
	p.keep(name, admin, append([]string{"prober", "--name", name, "--data", p.at(name), "--certs", p.at("certs"), "--join", hub, "--admin-listen", admin,
		"--cluster-listen", hostPort(own, 7946), "--cluster-advertise", hostPort(cable, 7946),
		"--node-listen", hostPort(own, 7947), "--node-advertise", hostPort(cable, 7947),
		"--mail-from", "probe@prober.example", "--egress", egress + "=mx.prober.example", "--socks5", mail.ears.Addr().String()}, p.common()...))
}

// dally has clients begin requests and never end them: half a header, half a body, or nothing at all.
func (p *plant) dally(ctx context.Context, f fault) bool {
	half := []string{"", "POST /v1/verify/single HTTP/1.1\r\nHost: x\r\nAuth", strings.Join([]string{"POST /v1/verify/bulk HTTP/1.1", "Host: x",
		"Authorization: Bearer " + p.client.key, "Content-Type: multipart/form-data; boundary=b", "Content-Length: 1000000", "",
		"--b", `Content-Disposition: form-data; name="file"; filename="l.csv"`, "", "email", "half@"}, "\r\n")}
	var all []net.Conn
	for i := range 5 + int(f.chance%20) {
		c, err := net.Dial("tcp", hostPort(p.ip(1), 8080))
		if err != nil {
			continue
		}
		_, _ = c.Write([]byte(half[i%len(half)])) // who is refused has done its worst
		all = append(all, c)
	}
	rest(ctx, f.lasts)
	for i, c := range all {
		if i%2 == 0 {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		_ = c.Close()
	}
	return len(all) > 0
}
