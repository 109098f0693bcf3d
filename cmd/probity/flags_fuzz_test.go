package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzConfig: no configuration file causes a panic.
func FuzzConfig(f *testing.F) {
	f.Add("listen = \"127.0.0.1:8080\"\negress = [\"192.0.2.1=mx.example.org\"]\n")
	f.Add("data = 1e400\n[a]\nb = 1979-05-27\n")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := loadConfig(strings.NewReader(text))
		require.Equal(t, err == nil, values != nil)
	})
}

// A zero would be taken for the default, and a floor below zero for more than any disk has.
func TestServeRefusesZeroAndNegativeNumbers(t *testing.T) {
	good := serveCmd{Listen: ":8080", AdminListen: ":9090", InitialCredits: 0, PublicPerDay: 1, DiskFloor: 1}
	good.SMTPPort, good.RetainResults = 25, period(7*day)
	require.NoError(t, good.Validate())
	for words, spoil := range map[string]func(*serveCmd){
		"--initial-credits -1":                    func(c *serveCmd) { c.InitialCredits = -1 },
		"--public-per-day 0":                      func(c *serveCmd) { c.PublicPerDay = 0 },
		"--disk-floor -1":                         func(c *serveCmd) { c.DiskFloor = -1 },
		"--retain-results 0d: give 1d to 30d":     func(c *serveCmd) { c.RetainResults = 0 },
		"--retain-results 31d: give 1d to 30d":    func(c *serveCmd) { c.RetainResults = period(31 * day) },
		"--retain-history 29d: give 30d to 3650d": func(c *serveCmd) { c.RetainHistory = period(29 * day) },
		"--retain-cache 30m: give 1h to 31d":      func(c *serveCmd) { c.RetainCache = period(30 * time.Minute) },
		"--mail-from":                             func(c *serveCmd) { c.MailFrom = "nobody" },
	} {
		c := good
		spoil(&c)
		require.ErrorContains(t, c.Validate(), words)
	}
}
