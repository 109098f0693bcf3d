package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A zero would be taken for the default, and a floor below zero for more than any disk has.
func TestServeRefusesZeroAndNegativeNumbers(t *testing.T) {
	good := ServeFlags{Listen: ":8080", AdminListen: ":9090", AdminEmail: "root@localhost", InitialCredits: 0, PublicPerDay: 1, DiskFloor: 1}
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
