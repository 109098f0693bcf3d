package doctor

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestACleanSetUpGivesOnlyOK(t *testing.T) {
	w := newFakeInternet(t)
	r := w.audit()
	seen := map[string]bool{}
	for _, f := range r.Findings {
		require.Equal(t, OK, f.Severity, "%+v", f)
		require.Empty(t, f.Advice, "%+v", f)
		seen[f.Check] = true
	}
	for _, check := range Checks() {
		require.True(t, seen[check], check)
	}
	require.Equal(t, []string{"RCPT TO:<probe@sender.org>"}, w.rcpts, "one recipient an audit, our own")
	require.Equal(t, []string{"25.0.0.2:25"}, w.dialled, "one connection, to our own MX")
}

// misconfigurations: what is broken, and what the audit must say of it.
var misconfigurations = []struct {
	name         string
	misconfigure func(w *fakeInternet)
	check        string
	severity     Severity
	what         string
	advice       string
}{
	{"no identity", func(w *fakeInternet) { w.cfg.Identities = nil }, "identity", Fail, "no egress identity",
		"--egress"},
	{"public address not known", func(w *fakeInternet) { w.cfg.Identities[0].Local = netip.Addr{} }, "identity",
		Unknown, "not known", "--egress LOCAL/PUBLIC="},
	{"private address", func(w *fakeInternet) { w.cfg.Identities[0].Local = netip.MustParseAddr("10.0.0.1") },
		"identity", Fail, "not a public address", "LOCAL/PUBLIC"},
	{"EHLO is no FQDN", func(w *fakeInternet) { w.cfg.Identities[0].EHLO = "probe" }, "ehlo", Fail,
		"not a fully qualified", "host name of your own"},
	{"EHLO is a local name", func(w *fakeInternet) { w.cfg.Identities[0].EHLO = "probe.local" }, "ehlo", Fail,
		"local network", "host name of your own"},
	{"EHLO is an address literal", func(w *fakeInternet) { w.cfg.Identities[0].EHLO = "[25.0.0.1]" }, "ehlo", Warn,
		"address literal", "host name of your own"},
	{"EHLO does not resolve", func(w *fakeInternet) { w.removeRecords("mx.sender.org.", dns.TypeA) }, "ehlo", Fail,
		"does not resolve", "publish an address record"},
	{"EHLO resolves elsewhere", func(w *fakeInternet) { w.set("mx.sender.org. A 25.0.0.9") }, "ehlo", Fail,
		"resolves to 25.0.0.9, not to 25.0.0.1", "add 25.0.0.1"},
	{"EHLO cannot be looked up", func(w *fakeInternet) { w.rcode["mx.sender.org."] = dns.RcodeServerFailure }, "ehlo",
		Unknown, "SERVFAIL", "name servers"},
	{"no PTR", func(w *fakeInternet) { w.removeRecords("1.0.0.25.in-addr.arpa.", dns.TypePTR) }, "ptr", Fail,
		"no PTR record", "PTR record to mx.sender.org"},
	{"PTR fails", func(w *fakeInternet) { w.rcode["1.0.0.25.in-addr.arpa."] = dns.RcodeServerFailure }, "ptr", Unknown,
		"SERVFAIL", "reverse zone"},
	{"PTR without forward match", func(w *fakeInternet) {
		w.set("1.0.0.25.in-addr.arpa. PTR other.sender.org.", "1.0.0.25.in-addr.arpa. PTR other.sender.org.")
	}, "ptr", Fail, "does not lead back", "25.0.0.1"},
	{"two PTR", func(w *fakeInternet) { w.add("1.0.0.25.in-addr.arpa. PTR other.sender.org.") }, "ptr", Warn,
		"2 PTR records", "keep one"},
	{"PTR is another name", func(w *fakeInternet) {
		w.set("1.0.0.25.in-addr.arpa. PTR host.sender.org.")
		w.add("host.sender.org. A 25.0.0.1")
	}, "ptr", Warn, "not the EHLO name", "mx.sender.org"},
	{"generic PTR", func(w *fakeInternet) {
		w.set("1.0.0.25.in-addr.arpa. PTR 25-0-0-1.dyn.access.net.")
		w.add("25-0-0-1.dyn.access.net. A 25.0.0.1")
	}, "ptr", Warn, "dial-up", "PTR record to mx.sender.org"},
	{"no SPF", func(w *fakeInternet) { w.removeRecords("sender.org.", dns.TypeTXT) }, "spf", Warn, "no SPF record",
		"v=spf1 ip4:25.0.0.1 -all"},
	{"SPF forbids", func(w *fakeInternet) { w.set(`sender.org. TXT "v=spf1 ip4:25.0.0.7 -all"`) }, "spf", Fail,
		"forbids", "add ip4:25.0.0.1"},
	{"SPF disowns", func(w *fakeInternet) { w.set(`sender.org. TXT "v=spf1 ~all"`) }, "spf", Warn, "softfail",
		"add ip4:25.0.0.1"},
	{"SPF permits the world", func(w *fakeInternet) { w.set(`sender.org. TXT "v=spf1 +all"`) }, "spf", Warn,
		"whole world", "-all"},
	{"two SPF records", func(w *fakeInternet) { w.add(`sender.org. TXT "v=spf1 -all"`) }, "spf", Fail,
		"multiple matching", "correct the SPF record"},
	{"SPF fails to resolve", func(w *fakeInternet) {
		w.set(`sender.org. TXT "v=spf1 include:gone.org -all"`)
		w.rcode["gone.org."] = dns.RcodeServerFailure
	}, "spf", Unknown, "cannot be evaluated", "name servers"},
	{"listed", func(w *fakeInternet) {
		w.add("1.0.0.25.list.test. A 127.0.0.2")
		w.add("1.0.0.25.list.test. TXT \"see our \x07 page\"")
	}, "dnsbl", Fail, "listed (127.0.0.2): see our", "ask list.test to remove"},
	{"list refuses by code", func(w *fakeInternet) { w.add("1.0.0.25.list.test. A 127.255.255.254") }, "dnsbl", Unknown,
		"refuses this resolver", "resolver of your own"},
	{"list refuses its test entry", func(w *fakeInternet) { w.set("2.0.0.127.list.test. A 127.255.255.254") }, "dnsbl",
		Unknown, "not checkable", "resolver of your own"},
	{"list blocks a public resolver", func(w *fakeInternet) {
		w.cfg.Servers[0] = netip.MustParseAddrPort("8.8.8.8:53")
		w.rcode["1.0.0.25.list.test."] = dns.RcodeRefused
	}, "dnsbl", Unknown, "8.8.8.8 is a public resolver", "resolver of your own"},
	{"list is dead", func(w *fakeInternet) { w.removeRecords("2.0.0.127.list.test.", dns.TypeA) }, "dnsbl", Unknown,
		"test entry is not seen", "remove the list"},
	{"list lists the world", func(w *fakeInternet) { w.add("1.0.0.127.list.test. A 127.0.0.2") }, "dnsbl", Unknown,
		"lists every address", "remove the list"},
	{"list answers nonsense", func(w *fakeInternet) { w.add("1.0.0.25.list.test. A 25.3.3.3") }, "dnsbl", Unknown,
		"does not mean a listing", "remove the list"},
	{"no MAIL FROM", func(w *fakeInternet) { w.cfg.MailFrom = "" }, "mail-from", Fail, "no MAIL FROM", "--mail-from"},
	{"bad MAIL FROM", func(w *fakeInternet) { w.cfg.MailFrom = "probe at sender" }, "mail-from", Fail,
		"not an e-mail address", "--mail-from"},
	{"no SOA", func(w *fakeInternet) { w.removeRecords("sender.org.", dns.TypeSOA) }, "soa", Fail, "no SOA",
		"SOA record"},
	{"no domain", func(w *fakeInternet) { w.cfg.MailFrom = "a@nowhere-at-all.org" }, "soa", Fail, "no such domain",
		"register"},
	{"null MX", func(w *fakeInternet) { w.set("sender.org. MX 0 .") }, "mx", Fail, "null MX", "publish an MX"},
	{"no MX", func(w *fakeInternet) { w.removeRecords("sender.org.", dns.TypeMX) }, "mx", Fail, "no MX and no address",
		"publish an MX"},
	{"implicit MX", func(w *fakeInternet) {
		w.removeRecords("sender.org.", dns.TypeMX)
		w.add("sender.org. A 25.0.0.2")
	}, "mx", Warn, "stands in", "publish an MX"},
	{"MX without address", func(w *fakeInternet) { w.removeRecords("in.sender.org.", dns.TypeA) }, "mx", Fail,
		"has no address", "address record"},
	{"MX is private", func(w *fakeInternet) { w.set("in.sender.org. A 192.168.0.2") }, "mx", Fail, "no public address",
		"public address"},
	{"MX is an alias", func(w *fakeInternet) {
		w.set("sender.org. MX 10 alias.sender.org.")
		w.add("alias.sender.org. CNAME in.sender.org.")
	}, "mx", Warn, "alias", "address records of its own"},
	{"port 25 refused", func(w *fakeInternet) { w.dialErr = syscall.ECONNREFUSED }, "port25", Fail,
		"refuses the connection", "firewall"},
	{"port 25 closed", func(w *fakeInternet) { w.dialErr = context.DeadlineExceeded }, "port25", Fail,
		"outgoing port 25 seems closed", "hoster"},
	{"source address is not ours", func(w *fakeInternet) { w.dialErr = syscall.EADDRNOTAVAIL }, "port25", Fail,
		"can leave from here", "--egress"},
	{"our own MX blocks us", func(w *fakeInternet) { w.banner = "554 5.7.1 your address is on a blocklist" }, "port25",
		Warn, "refuses us at banner: 554", "dnsbl"},
	{"mailbox unknown", func(w *fakeInternet) { w.rcptReply = "550 5.1.1 User unknown" }, "mailbox", Fail,
		"does not know it: 550", "create the mailbox"},
	{"mailbox full", func(w *fakeInternet) { w.rcptReply = "552 5.2.2 Mailbox full" }, "mailbox", Fail, "full",
		"empty"},
	{"mailbox deferred", func(w *fakeInternet) { w.rcptReply = "451 4.7.1 Greylisted, try again later" }, "mailbox",
		Unknown, "deferred", "again"},
	{"relay denied", func(w *fakeInternet) { w.rcptReply = "554 5.7.1 Relay access denied" }, "mailbox", Fail,
		"does not serve the domain", "MX record"},
	{"bounces refused", func(w *fakeInternet) { w.mailReply = "550 5.7.1 empty sender refused" }, "mailbox", Warn,
		"empty sender", "MAIL FROM:<>"},
	{"no resolver", func(w *fakeInternet) { w.cfg.Servers = nil }, "resolver", Fail, "no resolver", "--dns"},
	{"one resolver, named twice", func(w *fakeInternet) { w.cfg.Servers[1] = w.cfg.Servers[0] }, "resolver", Warn,
		"only one", "second resolver"},
	{"resolver rewrites NXDOMAIN", func(w *fakeInternet) { w.quirk(resolverB).rewrite = "25.9.9.9" }, "resolver", Fail,
		"rewrites NXDOMAIN", "turn its redirection"},
	{"resolver without EDNS", func(w *fakeInternet) { w.quirk(resolverB).noEDNS = true }, "resolver", Warn, "EDNS",
		"update"},
	{"resolver without TCP", func(w *fakeInternet) { w.quirk(resolverB).noTCP = true }, "resolver", Warn, "TCP",
		"TCP port 53"},
	{"resolver refuses", func(w *fakeInternet) { w.quirk(resolverB).rcode = dns.RcodeRefused }, "resolver", Fail,
		"refuses to answer", "serve this node"},
	{"resolver denies the root", func(w *fakeInternet) { w.quirk(resolverB).rcode = dns.RcodeNameError }, "resolver",
		Fail, "answers NXDOMAIN for the root itself", "way out"},
	{"resolver is not recursive", func(w *fakeInternet) { w.quirk(resolverB).notRecursive = true }, "resolver", Fail,
		"not recursive", "recursive resolver"},
	{"resolvers disagree", func(w *fakeInternet) { w.quirk(resolverB).hiddenName = "sender.org." }, "resolver", Warn,
		"disagree", "which one is right"},
	{"nothing keeps the clock", func(w *fakeInternet) { w.cfg.Synced = func() (bool, bool) { return false, true } },
		"clock", Warn, "nothing keeps it right", "time service"},
	{"clock cannot be told", func(w *fakeInternet) { w.cfg.Synced = nil }, "clock", Unknown, "cannot tell",
		"time service"},
	{"clock is before the program", func(w *fakeInternet) { w.cfg.NotBefore = time.Now().Add(time.Hour) }, "clock",
		Fail, "younger", "set the clock"},
	{"few files", func(w *fakeInternet) { w.cfg.OpenFiles = func() (uint64, uint64, error) { return 1024, 4096, nil } },
		"files", Warn, "1024 open files", "LimitNOFILE=2024"},
	{"hardly any files", func(w *fakeInternet) {
		w.cfg.OpenFiles = func() (uint64, uint64, error) {
			return 256, 256,
				nil
		}
	}, "files", Fail, "256 open files", "ulimit -n"},
	{"disk is full", func(w *fakeInternet) { w.cfg.FreeFloor = 200 << 30 }, "store", Fail, "below the floor",
		"free space"},
	{"disk is nearly full", func(w *fakeInternet) { w.cfg.FreeFloor = 20 << 30 }, "store", Warn, "100.0 GiB free",
		"free space"},
	{"no origin of callbacks", func(w *fakeInternet) { w.cfg.Callbacks = &Callbacks{} }, "callbacks", Warn,
		"cannot check where callbacks come from", "--callback-source"},
	{"private origin of callbacks", func(w *fakeInternet) { w.cfg.Callbacks.Public = netip.MustParseAddr("10.0.0.1") },
		"callbacks", Warn, "told 10.0.0.1", "LOCAL/PUBLIC"},
	{"a cache was set aside", func(w *fakeInternet) { _ = w.cfg.FS.MkdirAll("/data/cache.damaged", 0o755) }, "store",
		Warn, "damaged result cache", "look at the disk"},
	{"store is not writable", func(w *fakeInternet) { w.cfg.FS = readOnly{w.cfg.FS} }, "store", Fail, "not writable",
		"--data"},
}

func TestEachMisconfigurationHasAdvice(t *testing.T) {
	for _, c := range misconfigurations {
		t.Run(c.name, func(t *testing.T) {
			w := newFakeInternet(t)
			c.misconfigure(w)
			r := w.audit()
			require.Conditionf(t, func() bool { return has(r, c.check, c.severity, c.what, c.advice) },
				"want %s %s %q %q in %+v", c.check, c.severity, c.what, c.advice, r.Findings)
			for _, f := range r.Findings {
				require.Equal(t, f.Severity == OK, f.Advice == "", "%+v", f)
				require.Equal(t, f.Message, printableAll(f.Message), "%+v", f)
			}
			require.LessOrEqual(t, len(w.rcpts), 1)
		})
	}
}

func printableAll(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
}

func has(r *Report, check string, severity Severity, what, advice string) bool {
	for _, f := range r.Findings {
		if f.Check == check && f.Severity == severity && strings.Contains(f.Message, what) &&
			strings.Contains(f.Advice, advice) {
			return true
		}
	}
	return false
}

// readOnly is a disk that takes nothing.
type readOnly struct{ vfs.FS }

func (readOnly) Create(string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errors.New("read-only file system")
}

func TestASilentResolverIsUnknownAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeInternet(t)
		w.quirk(resolverA).silent, w.quirk(resolverB).silent = true, true
		r := w.audit()
		require.True(t, has(r, "resolver", Fail, "no answer in time", "--dns"))
		require.True(t, has(r, "ptr", Unknown, "no answer in time", ""))
		require.True(t, has(r, "dnsbl", Unknown, "no answer in time", ""))
		require.False(t, has(r, "ptr", Fail, "", ""))
		require.LessOrEqual(t, r.Took, 2*time.Minute+10*time.Second)
	})
}

func TestDeadResolverAffectsNoOtherCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeInternet(t)
		w.quirk(resolverA).silent = true
		for _, f := range w.audit().Findings {
			if f.Check != "resolver" {
				require.Equal(t, OK, f.Severity, "%+v", f)
			}
		}
	})
}

func TestConfiguredTargetReplacesTheMX(t *testing.T) {
	w := newFakeInternet(t)
	w.cfg.Target = "25.0.0.8:2525"
	r := w.audit()
	require.Equal(t, []string{"25.0.0.8:2525", "25.0.0.2:25"}, w.dialled)
	require.Equal(t, OK, r.Worst())
}

func TestAllowPrivateAcceptsPrivateAddresses(t *testing.T) {
	w := newFakeInternet(t)
	w.cfg.AllowPrivate = true
	w.cfg.Identities[0].Local = netip.MustParseAddr("127.0.0.1")
	w.set("mx.sender.org. A 127.0.0.1", `sender.org. TXT "v=spf1 ip4:127.0.0.0/8 -all"`, "in.sender.org. A 127.0.0.2")
	w.add("1.0.0.127.in-addr.arpa. PTR mx.sender.org.")
	r := w.audit()
	require.Equal(t, OK, r.Worst(), "%+v", r.Findings)
}

func TestAnIPv6Identity(t *testing.T) {
	w := newFakeInternet(t)
	six := netip.MustParseAddr("2a00:1::25")
	w.cfg.Identities[0].Local = six
	arpa, err := dns.ReverseAddr(six.String())
	require.NoError(t, err)
	w.add(arpa + " PTR mx.sender.org.")
	w.add("mx.sender.org. AAAA 2a00:1::25")
	w.add("in.sender.org. AAAA 2a00:1::26")
	w.set(`sender.org. TXT "v=spf1 ip6:2a00:1::/64 -all"`)
	r := w.audit()
	require.Equal(t, OK, r.Worst(), "%+v", r.Findings)
	require.Equal(t, []string{"[2a00:1::26]:25"}, w.dialled)
}

func TestAJumpOfTheWallClockIsSeen(t *testing.T) {
	c := Config{Synced: func() (bool, bool) { return true, true }}
	now := time.Now()
	require.Equal(t, OK, c.checkClock(now, time.Hour, time.Second).Severity)
	require.Equal(t, Warn, c.checkClock(now, time.Hour, -time.Minute).Severity)
	require.Contains(t, c.checkClock(now, time.Hour, time.Minute).Message, "jumped by 1m0s within 1h0m0s")
}

func TestMissingStoreIsNotCreated(t *testing.T) {
	w := newFakeInternet(t)
	w.cfg.Folder = "/data/not/yet"
	require.True(t, has(w.audit(), "store", OK, "first start", ""))
	names, err := w.cfg.FS.List("/data")
	require.NoError(t, err)
	require.Empty(t, names)
}

func TestRunAuditsEachHourAndPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeInternet(t)
		registry := prometheus.NewRegistry()
		var log bytes.Buffer
		w.cfg.Metrics, w.cfg.Log = registry, slog.New(slog.NewTextHandler(&log, nil))
		d, err := New(w.cfg)
		require.NoError(t, err)
		require.Nil(t, d.Latest())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		synctest.Wait()
		first := d.Latest()
		require.Equal(t, OK, first.Worst())
		require.Zero(t, gauge(t, registry, "ptr", "fail"))

		w.removeRecords("1.0.0.25.in-addr.arpa.", dns.TypePTR)
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		require.Same(t, first, d.Latest())
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		second := d.Latest()
		require.NotSame(t, first, second)
		require.Equal(t, Fail, second.Worst())
		require.Equal(t, OK, first.Worst(), "a published report does not change")
		require.InDelta(t, 1, gauge(t, registry, "ptr", "fail"), 0)
		require.Len(t, w.rcpts, 2, "one recipient an hour")
		require.Contains(t, log.String(), "check=ptr subject=25.0.0.1 level=fail do=")
		require.NotContains(t, log.String(), "@", "addresses are not logged in clear")

		cancel()
		require.NoError(t, <-ended)
		w.servers.Wait()
	})
}

func TestLogsShowNoAddress(t *testing.T) {
	for subject, want := range map[string]string{"25.0.0.1": "25.0.0.1", "probe@sender.org": "sender.org", "-": "-",
		"sender.org mx.sender.org": "sender.org mx.sender.org"} {
		require.Equal(t, want, Finding{Subject: subject}.logSubject())
	}
}

func gauge(t *testing.T, registry *prometheus.Registry, check, severity string) float64 {
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["check"] == check && labels["level"] == severity {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no gauge for %s %s", check, severity)
	return 0
}

func TestABadConfigurationIsRefused(t *testing.T) {
	for name, misconfigure := range map[string]func(*Config){
		"no exchange":        func(c *Config) { c.Exchange = nil },
		"many identities":    func(c *Config) { c.Identities = make([]Identity, maxIdentities+1) },
		"many lists":         func(c *Config) { c.DNSBLs = make([]string, 33) },
		"a list that is not": func(c *Config) { c.DNSBLs = []string{"no list"} },
	} {
		cfg := newFakeInternet(t).cfg
		misconfigure(&cfg)
		_, err := New(cfg)
		require.Error(t, err, name)
	}
}
