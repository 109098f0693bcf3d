package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"probity/internal/nodeflags"
)

// parseWithConfig parses a command whose flags are in a configuration file.
func parseWithConfig(t *testing.T, file string, args ...string) (cli, error) {
	config := &configFile{}
	_, err := config.load(strings.NewReader(file))
	require.NoError(t, err)
	var c cli
	parser, err := kong.New(&c, append(flagParsers(), kong.Resolvers(config))...)
	require.NoError(t, err)
	_, err = parser.Parse(args)
	return c, err
}

// TestConfigSaysWhyAValueIsRefused: the reason is that of the command line; quotes are the advice only where they help.
func TestConfigSaysWhyAValueIsRefused(t *testing.T) {
	const at, quotes = "configuration file: line 1: ", " is not taken; write it in quotes, as on the command line"
	for file, want := range map[string]string{
		`smtp-port = 99999`: at + `"99999" is not a port; write a number from 1 to 65535`,
		`smtp-port = true`:  at + `"true" is not a port; write a number from 1 to 65535`,
		`smtp-port = [25]`:  at + `"[25]" is not a port; write a number from 1 to 65535`,
		`no-smtp = 3`: at +
			`bool value must be true, 1, yes, false, 0 or no but got "3"`,
		`timeout = 30`: at +
			`"30" is not a length of time; write for example 30s, 5m or 1h30m`,
		`max-age = 7`: at +
			`"7" is not a length of time; write days such as 7d, or hours such as 36h`,
		`mail-from = 1.10`: at + `1.1` + quotes,
		`retry-schedule = [60, 300]`: at +
			`"60" is not a length of time; write for example 30s, 5m or 1h30m`,
		`retry-schedule = ["1m", "5x"]`: at +
			`"5x" is not a length of time; write for example 30s, 5m or 1h30m`,
		`retry-schedule = [60.0]`: at +
			`"60" is not a length of time; write for example 30s, 5m or 1h30m`,
		`retry-schedule = 60.0`: at +
			`"60" is not a length of time; write for example 30s, 5m or 1h30m`,
		`egress = [5]`:               at + `[5]` + quotes,
		`dns = ["127.0.0.1:53", ""]`: at + `"" is not a resolver`,
		`trusted-proxy = ["192.0.2.0/24", "192.0.2.33"]`: at +
			`invalid network "192.0.2.33"; write CIDR, e.g. 192.0.2.0/24, or 192.0.2.7/32 for one address`,
	} {
		command := []string{"verify", "ann@example.org"}
		if strings.HasPrefix(file, "trusted-proxy") {
			command = []string{"serve"}
		}
		_, err := parseWithConfig(t, file, command...)
		require.ErrorContains(t, err, want)
	}
}

func TestConfigTakesNumbers(t *testing.T) {
	for file, check := range map[string]func(cli){
		`max-age = 0`:      func(c cli) { require.Zero(t, c.Verify.MaxAge) },
		`smtp-port = 2525`: func(c cli) { require.EqualValues(t, 2525, c.Verify.SMTPPort) },
	} {
		c, err := parseWithConfig(t, file, "verify", "ann@example.org")
		require.NoError(t, err, file)
		check(c)
	}
}

// TestConfigTakesLists: the parser of the flag reads each element, whatever is in it.
func TestConfigTakesLists(t *testing.T) {
	type durations = []time.Duration
	for file, check := range map[string]func(cli){
		`retry-schedule = ["1m", "5m"]`: func(c cli) {
			require.Equal(t, durations{time.Minute, 5 * time.Minute},
				c.Verify.RetrySchedule)
		},
		`retry-schedule = "1m,5m"`: func(c cli) {
			require.Equal(t, durations{time.Minute, 5 * time.Minute},
				c.Verify.RetrySchedule)
		},
		`retry-schedule = []`: func(c cli) { require.Empty(t, c.Verify.RetrySchedule) },
		`dns = ["127.0.0.1:53", "[::1]:53"]`: func(c cli) {
			require.Equal(t, "[127.0.0.1:53 [::1]:53]", fmt.Sprint(c.Verify.DNS))
		},
		`egress = ["192.0.2.1=a.example,socks5=u:p,w@127.0.0.1:1080", "192.0.2.2=b.example"]`: func(c cli) {
			require.Equal(t, []nodeflags.Egress{"192.0.2.1=a.example,socks5=u:p,w@127.0.0.1:1080",
				"192.0.2.2=b.example"}, c.Verify.Egress)
		},
	} {
		c, err := parseWithConfig(t, file, "verify", "ann@example.org")
		require.NoError(t, err, file)
		check(c)
	}
	c, err := parseWithConfig(t, `cors-origin = ["https://a.example/x,y", "https://b.example/\\z", ""]`, "serve")
	require.ErrorContains(t, err, "--cors-origin")
	require.Equal(t, []string{"https://a.example/x,y", `https://b.example/\z`, ""}, c.Serve.CORSOrigin)
}
