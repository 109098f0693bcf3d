package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A zero would be taken for the default, and a floor below zero for more than any disk has.
func TestServeRefusesZeroAndNegativeNumbers(t *testing.T) {
	good := ServeFlags{Listen: ":8080", AdminListen: ":9090", AdminEmail: "root@localhost", InitialCredits: 0,
		PublicPerDay: 1, DiskFloor: 1}
	good.SMTPPort, good.RetainResults = 25, Period(7*day)
	require.NoError(t, good.Validate())
	for words, spoil := range map[string]func(*ServeFlags){
		`--admin-email "root": give an address`:   func(c *ServeFlags) { c.AdminEmail = "root" },
		"--initial-credits -1":                    func(c *ServeFlags) { c.InitialCredits = -1 },
		"--public-per-day 0":                      func(c *ServeFlags) { c.PublicPerDay = 0 },
		"--disk-floor -1":                         func(c *ServeFlags) { c.DiskFloor = -1 },
		"--retain-results 0d: give 1d to 30d":     func(c *ServeFlags) { c.RetainResults = 0 },
		"--retain-results 31d: give 1d to 30d":    func(c *ServeFlags) { c.RetainResults = Period(31 * day) },
		"--retain-history 29d: give 30d to 3650d": func(c *ServeFlags) { c.RetainHistory = Period(29 * day) },
		"--retain-cache 30m: give 1h to 31d":      func(c *ServeFlags) { c.RetainCache = Period(30 * time.Minute) },
		"--mail-from":                             func(c *ServeFlags) { c.MailFrom = "nobody" },
	} {
		c := good
		spoil(&c)
		require.ErrorContains(t, c.Validate(), words)
	}
}

// TestListenersHavePortsOfTheirOwn: two flags that give one port are refused, also where one address stands for all.
func TestListenersHavePortsOfTheirOwn(t *testing.T) {
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{"127.0.0.1:9090", "127.0.0.1:9090", true},
		{":9090", "127.0.0.1:9090", true},
		{"127.0.0.1:9090", "0.0.0.0:9090", true},
		{"[::1]:9090", "[::]:9090", true},
		{"[::ffff:127.0.0.1]:9090", "0.0.0.0:9090", true},
		{"[::ffff:127.0.0.1]:9090", "127.0.0.1:9090", true},
		{"127.0.0.1:9090", "[::ffff:0.0.0.0]:9090", true},
		{"[::]:9090", "127.0.0.1:9090", true},
		{"[::1]:9090", "0.0.0.0:9090", false},
		{"ip6-localhost:9090", "0.0.0.0:9090", false}, // what a name stands for shows when it is opened
		{"127.0.0.1:9090", "127.0.0.2:9090", false},
		{"127.0.0.1:9090", "127.0.0.1:9091", false},
		{"127.0.0.1:0", "127.0.0.1:0", false},
		{"9090", "9090", false}, // neither is an address, which is another error
	} {
		err := listenFlag{"listen", c.one}.checkApart(listenFlag{"node-listen", "127.0.0.1:1"},
			listenFlag{"admin-listen", c.other})
		if !c.same {
			require.NoError(t, err, "%s and %s", c.one, c.other)
			continue
		}
		require.EqualError(t, err, "--listen "+c.one+" and --admin-listen "+c.other+
			" are the same port: give each a port of its own")
	}
}
