package dns

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// BenchmarkRoute looks up distinct domains over a real socket and reports the CPU time of our side: that of the whole
// process less that of the server's thread.
func BenchmarkRoute(b *testing.B) {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan time.Duration)
	go serveFast(server, served)
	var d net.Dialer
	var lc net.ListenConfig
	r, err := New(Config{Servers: []netip.AddrPort{server.LocalAddr().(*net.UDPAddr).AddrPort()}, Dial: d.DialContext,
		ListenPacket: lc.ListenPacket}, testTable())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	b.ReportAllocs()
	before := cpu(syscall.RUSAGE_SELF)
	var next atomic.Int64
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if route := r.Route(ctx, fmt.Sprintf("d%d.example", next.Add(1))); !route.Fact.Routable() {
				b.Error(route.Fact)
			}
		}
	})
	total := cpu(syscall.RUSAGE_SELF) - before
	cancel()
	wg.Wait()
	_ = server.Close()
	total -= <-served
	b.ReportMetric(float64(total.Nanoseconds())/float64(b.N), "cpu-ns/domain")
}

const rusageThread = 1 // RUSAGE_THREAD of Linux

func cpu(which int) time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(which, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serveFast answers every MX query with two records, in a thread of its own, and sends that thread's CPU time.
func serveFast(conn *net.UDPConn, served chan<- time.Duration) {
	runtime.LockOSThread()
	before := cpu(rusageThread)
	buf := make([]byte, 512)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			served <- cpu(rusageThread) - before
			return
		}
		end := n - 11 // OPT
		msg := append(buf[:end], 0xc0, 12, 0, byte(dns.TypeMX), 0, 1, 0, 0, 2, 88, 0, 8, 0, 10, 3, 'm', 'x', '1', 0xc0,
			12,
			0xc0, 12, 0, byte(dns.TypeMX), 0, 1, 0, 0, 2, 88, 0, 8, 0, 20, 3, 'm', 'x', '2', 0xc0, 12)
		msg[2], msg[3] = 0x81, 0x80
		binary.BigEndian.PutUint16(msg[6:], 2)
		binary.BigEndian.PutUint16(msg[10:], 0)
		_, _ = conn.WriteToUDPAddrPort(msg, from)
	}
}
