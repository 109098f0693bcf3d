package main

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"probity/engine/smtp"
	"probity/internal/nodeflags"
)

// A proxy's password comes from the command line, the environment or the configuration file, for all sources or for
// one. It is never shown.
func TestProxyPasswordsAreTakenAndNotShown(t *testing.T) {
	const secret = "hunter:s3:same"
	parse := func(file string, args ...string) (flags nodeflags.Probing, err error) {
		config, err := new(configFile).load(strings.NewReader(file))
		require.NoError(t, err)
		k, err := kong.New(&flags, kong.DefaultEnvars("PROBITY"), kong.Resolvers(config))
		require.NoError(t, err)
		_, err = k.Parse(args)
		return flags, err
	}
	source := "--egress=127.0.0.1/192.0.2.1=a.example,socks5=" + secret + "@own.example:1080"
	fromFile, err := parse(`socks5 = "`+secret+`@all.example:1080"`, source, "--egress==b.example")
	require.NoError(t, err)
	t.Setenv("PROBITY_SOCKS5", secret+"@all.example:1080")
	fromEnv, err := parse("", source, "--egress==b.example")
	require.NoError(t, err)
	fromArgs, err := parse("", "--socks5="+secret+"@all.example:1080", source, "--egress==b.example")
	require.NoError(t, err)
	for _, flags := range []nodeflags.Probing{fromFile, fromEnv, fromArgs} {
		flags.Concurrency = 10
		cfg, err := flags.ProberConfig(nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		all, err := smtp.ParseProxy(secret + "@all.example:1080")
		require.NoError(t, err)
		own, err := smtp.ParseProxy(secret + "@own.example:1080")
		require.NoError(t, err)
		require.Equal(t, all, cfg.SOCKS5)
		require.Equal(t, own, cfg.Sources[0].SOCKS5)
		require.Zero(t, cfg.Sources[1].SOCKS5)
		require.Equal(t, "192.0.2.1", cfg.Sources[0].Name())

		shown, err := json.Marshal(flags)
		require.NoError(t, err)
		require.NotContains(t, string(shown), "hunter")
		require.NotContains(t, string(shown), "s3")
		require.Contains(t, string(shown), `"***@all.example:1080"`)
		require.Contains(t, string(shown), `"127.0.0.1/192.0.2.1=a.example,socks5=***@own.example:1080"`)
	}
	for _, args := range [][]string{{"--socks5=" + secret + "@all.example"}, {"--socks5=hunter@all.example:1"},
		{"--egress=192.0.2.1,socks5=" + secret + "@own.example:1080"},
		{"--egress=192.0.2.1=a.example,socks5=" + secret + "@own"},
		{"--egress=192.0.2.999=a.example,socks5=" + secret + "@own.example:1"},
		{"--egress=192.0.2.77=a.example,socks5=" + secret + "@own.example:1"}} {
		flags, err := parse("", args...)
		if err == nil {
			_, err = flags.Identities()
		}
		require.Error(t, err, "%v", args)
		require.NotContains(t, err.Error(), "hunter")
		require.NotContains(t, err.Error(), "s3")
	}
	t.Setenv("PROBITY_SOCKS5", secret+"@all.example")
	_, err = parse("")
	require.ErrorContains(t, err, "write HOST:PORT")
	require.NotContains(t, err.Error(), "hunter")
}
