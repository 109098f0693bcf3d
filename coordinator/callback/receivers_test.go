package callback

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

func TestCallbackStopsAtRedirectAndGone(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		other := w.receive(receiverAddr+":8080", status(200))
		w.receive(receiverAddr+":80", func(n int, rw http.ResponseWriter, _ received) {
			switch {
			case n == 1:
				rw.Header().Set("Location", "http://hook.example:8080/")
				rw.WriteHeader(307)
			case n == 2:
				rw.WriteHeader(404)
			default:
				rw.WriteHeader(410)
			}
		})
		w.finish("j1", receiverURL)
		cb, log := w.waitForState("j1", store.CallbackStopped)
		require.Equal(t, 3, cb.Attempts)
		require.Equal(t, []int{307, 404, 410}, []int{log[0].Status, log[1].Status, log[2].Status})
		require.Equal(t, "answered 307: redirects are not followed", log[0].Error)
		require.Empty(t, other.all())
	})
}

func TestCallbackRefusedAsTooLargeBecomesALink(t *testing.T) {
	for _, refusal := range []int{413, 411} {
		runTest(t, nil, func(t *testing.T, w *testEnv) {
			box := w.receive(receiverAddr+":80", status(refusal, 200))
			w.finish("j1", receiverURL)
			_, log := w.waitForState("j1", store.CallbackDelivered)
			require.Equal(t, []bool{false, true}, []bool{log[0].Link, log[1].Link})
			require.Empty(t, box.all()[1].event(t).Results)
			require.Contains(t, *box.all()[1].event(t).ResultsURL, "/v1/verify/bulk/j1/results?")
		})
	}
}

// A body has its length, whatever its size: receivers that read as many bytes as Content-Length says get all of it.
func TestCallbackHasALength(t *testing.T) {
	for _, rows := range []int64{1, 3, 20_000} {
		runTest(t, nil, func(t *testing.T, w *testEnv) {
			w.rows.n.Store(rows)
			box := w.receive(receiverAddr+":80", status(200))
			w.finish("j1", receiverURL)
			w.waitForState("j1", store.CallbackDelivered)
			got := box.all()[0]
			require.EqualValues(t, len(got.body), got.length)
			require.Len(t, got.event(t).Results, int(rows))
		})
	}
}

// A refusal that arrives while the body is being sent is read, and the rest of the body is not sent.
func TestCallbackStopsOnEarlyRefusal(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.rows.n.Store(100_000)
		w.raw(receiverAddr+":80", func(n int, conn net.Conn) {
			if n == 1 {
				io.ReadFull(conn, make([]byte, 4096))
				io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
				<-time.After(10 * time.Second)
				return
			}
			io.ReadFull(conn, make([]byte, 100))
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		})
		w.finish("j1", receiverURL)
		_, log := w.waitForState("j1", store.CallbackDelivered)
		require.Equal(t, 413, log[0].Status)
		require.Less(t, log[0].Bytes, int64(256<<10))
		require.True(t, log[1].Link)
	})
}

// Two resets within the body make the next attempt a link, even with a restart between them.
func TestTwoResetsMakeTheCallbackALink(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.rows.n.Store(100_000)
		var got []byte
		w.raw(receiverAddr+":80", func(n int, conn net.Conn) {
			if n <= 2 {
				io.ReadFull(conn, make([]byte, 100_000))
				reset(conn)
				return
			}
			buf := make([]byte, 4096)
			m, _ := conn.Read(buf)
			got = append(got, buf[:m]...)
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		})
		w.finish("j1", receiverURL)
		w.advance(2 * time.Second)
		w.restart()
		_, log := w.waitForState("j1", store.CallbackDelivered)
		require.Equal(t, []bool{false, false, true}, []bool{log[0].Link, log[1].Link, log[2].Link})
		require.Equal(t, errCut.Error(), log[0].Error)
		require.Equal(t, errCut.Error(), log[1].Error)
		require.Equal(t, []bool{true, true, false}, []bool{log[0].Truncated, log[1].Truncated, log[2].Truncated})
		require.Greater(t, log[1].Bytes, int64(90_000))
		require.NotContains(t, string(got), `"results":`)
	})
}

func TestCallbackTimesOut(t *testing.T) {
	head := func(conn net.Conn) { io.ReadFull(conn, make([]byte, 64)) }
	// the head has less, a body of three rows more
	begun := func(conn net.Conn) { io.ReadFull(conn, make([]byte, 400)) }
	for name, c := range map[string]struct {
		rows   int64
		handle func(net.Conn)
		want   error
		took   time.Duration
	}{
		"hangs after the body": {3, func(conn net.Conn) { io.Copy(io.Discard, conn) }, errNoAnswer, 15 * time.Second},
		"200 after 15 s": {3, func(conn net.Conn) {
			head(conn)
			<-time.After(15*time.Second + time.Millisecond)
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		}, errNoAnswer, 15 * time.Second},
		"half an answer": {3, func(conn net.Conn) {
			head(conn)
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-A: ")
			io.Copy(io.Discard, conn)
		}, errNoAnswer, 15 * time.Second},
		"takes nothing of the body": {100_000, func(_ net.Conn) { <-time.After(5 * time.Minute) }, errStalled,
			60 * time.Second},
		"closes":              {3, func(conn net.Conn) { head(conn) }, errLost, 0},
		"resets a small body": {3, func(conn net.Conn) { begun(conn); reset(conn) }, errCut, 0},
		"closes in mid-body":  {100_000, begun, errCut, 0},
		"speaks something else": {3, func(conn net.Conn) {
			head(conn)
			io.WriteString(conn,
				"220 mail.example ESMTP\r\n")
		}, errNotHTTP, 0},
		"never ends its interim answers": {3, func(conn net.Conn) {
			head(conn)
			for range 100 {
				io.WriteString(conn, "HTTP/1.1 102 Processing\r\n\r\n")
			}
		}, errNotHTTP, 0},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, nil, func(t *testing.T, w *testEnv) {
				w.rows.n.Store(c.rows)
				w.raw(receiverAddr+":80", func(n int, conn net.Conn) {
					if n == 1 {
						c.handle(conn)
						return
					}
					io.ReadFull(conn, make([]byte, 64))
					io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
				})
				w.finish("j1", receiverURL)
				_, log := w.waitForState("j1", store.CallbackDelivered)
				require.Equal(t, c.want.Error(), log[0].Error)
				require.Equal(t, c.took, log[0].Duration.Truncate(time.Second))
			})
		})
	}
}

// An answer may arrive up to 15 s after the end of a body that itself took much longer.
func TestSlowReceiverGetsTheWholeCallback(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.rows.n.Store(10_000)
		w.raw(receiverAddr+":80", func(_ int, conn net.Conn) {
			buf, tail := make([]byte, 16<<10), ""
			for !strings.HasSuffix(tail, "]}\n") {
				<-time.After(2 * time.Second)
				n, err := conn.Read(buf)
				if err != nil {
					return
				}
				tail = (tail + string(buf[:n]))[max(0, len(tail)+n-16):]
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		})
		w.finish("j1", receiverURL)
		cb, log := w.waitForState("j1", store.CallbackDelivered)
		require.Equal(t, 1, cb.Attempts, "%+v", log)
		require.Greater(t, log[0].Duration, time.Minute)
	})
}

// A very slow transfer that never stalls is ended too.
func TestCallbackEndsAVerySlowTransfer(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.rows.n.Store(100_000)
		w.raw(receiverAddr+":80", func(_ int, conn net.Conn) {
			buf := make([]byte, 16<<10)
			for {
				<-time.After(40 * time.Second)
				if _, err := conn.Read(buf); err != nil {
					return
				}
			}
		})
		w.finish("j1", receiverURL)
		w.advance(maxAttempt + time.Minute)
		log, err := w.store.CallbackLog("j1")
		require.NoError(t, err)
		require.Equal(t, errTooSlow.Error(), log[0].Error)
	})
}

// Written bytes are never far ahead of read ones, whatever the size of the job.
func TestCallbackMemoryIsConstant(t *testing.T) {
	const ahead = 64<<10 + 2*sendBuffer // the network's buffer, one of ours, and one read
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.rows.n.Store(100_000)
		var read, most atomic.Int64
		w.raw(receiverAddr+":80", func(_ int, conn net.Conn) {
			buf, tail := make([]byte, 16<<10), ""
			for !strings.HasSuffix(tail, "]}\n") {
				if w.rows.passes.Load() == 2 { // the first measures and signs
					most.Store(max(most.Load(), w.rows.wrote.Load()-read.Load()))
				}
				n, err := conn.Read(buf)
				if err != nil {
					return
				}
				read.Add(int64(n))
				tail = (tail + string(buf[:n]))[max(0, len(tail)+n-16):]
				if read.Load()%7 == 0 {
					<-time.After(time.Millisecond) // so that the writer gets as far ahead as it can
				}
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		})
		w.finish("j1", receiverURL)
		cb, _ := w.waitForState("j1", store.CallbackDelivered)
		require.Equal(t, 1, cb.Attempts)
		require.Greater(t, w.rows.wrote.Load(), int64(8e6))
		require.Greater(t, read.Load(), w.rows.wrote.Load())
		require.Less(t, most.Load(), int64(ahead))
		require.Greater(t, most.Load(), int64(64<<10), "the test has seen the writer ahead")
	})
}
