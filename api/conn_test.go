package api

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDeadlineOfReadsHoldsAsItWasSetLast: whether it was moved to later, to earlier, or taken away.
func TestDeadlineOfReadsHoldsAsItWasSetLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		c := &clientConn{Conn: ours, raw: ours}
		set := func(d ...time.Duration) {
			for _, d := range d {
				require.NoError(t, c.SetReadDeadline(time.Now().Add(d)))
			}
		}
		ends := func(after time.Duration) {
			t.Helper()
			began := time.Now()
			_, err := c.Read(make([]byte, 1))
			require.True(t, isTimeout(err), "%v", err)
			require.Equal(t, after, time.Since(began))
		}
		set(time.Second)
		ends(time.Second)
		ends(0)
		set(time.Second, 75*time.Second, 10*time.Second)
		ends(10 * time.Second)
		set(10*time.Second, time.Second)
		ends(time.Second)
		set(time.Second)
		require.NoError(t, c.SetReadDeadline(time.Time{}))
		go func() {
			time.Sleep(time.Hour) // of the bubble's
			_, _ = theirs.Write([]byte("x"))
		}()
		n, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		set(time.Second)
		ends(time.Second)
	})
}
