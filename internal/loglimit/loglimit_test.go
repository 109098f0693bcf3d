package loglimit

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire/stream"
)

// Unknown clients can cause a few log lines a second and a count, and hide no other messages.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(New(slog.NewTextHandler(&out, nil)))
		handshakes := stream.ServerTLS(tls.Certificate{}, x509.NewCertPool(), log.With("node", "n1"))
		const unknown = 300
		for range unknown {
			ours, theirs := net.Pipe()
			require.NoError(t, theirs.Close())
			_, _, err := handshakes.ServerHandshake(ours)
			require.Error(t, err)
			log.Info("an ordinary line")
		}
		log.Error("something else", "error", "disk")
		time.Sleep(time.Minute)
		synctest.Wait()
		text := out.String()
		require.Equal(t, maxLines, strings.Count(text, `msg="refused a connection to this node"`), text)
		require.Equal(t, 1, strings.Count(text, fmt.Sprintf(`message="refused a connection to this node" lines=%d`,
			unknown-maxLines)), text)
		require.Equal(t, unknown, strings.Count(text, "an ordinary line"))
		require.Contains(t, text, "something else")

		out.Reset()
		for range 10 { // seconds of a flood
			for range 50 {
				log.Warn("refused a connection to this node")
			}
			time.Sleep(period + time.Millisecond)
		}
		synctest.Wait()
		require.Equal(t, 10*(maxLines+1), strings.Count(out.String(), "\n"))
		require.Equal(t, 10, strings.Count(out.String(), "lines=45"))
	})
}

// An unlimited number of different messages, as from a bug, is counted together.
func TestKindsOfLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := New(slog.NewTextHandler(&out, nil)).(limiter)
		log := slog.New(l)
		for i := range 10 * maxMessages {
			log.Warn(fmt.Sprint("message ", i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.LessOrEqual(t, len(l.counters.byMessage), maxMessages+1)
		require.Equal(t, maxMessages+maxLines+1, strings.Count(out.String(), "\n"))
	})
}
