package callback

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"probity/internal/detector"
	"probity/store"
)

const receiverURL = "http://hook.example/in?for=us"

func TestCallbackIsDelivered(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		box := w.receive(receiverAddr+":80", status(204))
		j := w.finish("j1", receiverURL)
		cb, log := w.waitForState(j.ID, store.CallbackDelivered)
		require.Equal(t, 1, cb.Attempts)
		require.Len(t, log, 1)
		require.Equal(t, 204, log[0].Status)
		require.False(t, log[0].Link)
		require.Empty(t, log[0].Error)
		require.Len(t, box.all(), 1)
		h := box.all()[0]
		require.Equal(t, "/in?for=us", h.path)
		require.Equal(t, "application/json", h.header.Get("Content-Type"))
		require.Empty(t, h.header.Get(standardwebhooks.HeaderWebhookSignature), "unsigned by default")
		require.GreaterOrEqual(t, log[0].Bytes, int64(len(h.body)))
		require.True(t, strings.HasPrefix(string(h.body), `{"event":"bulk.finished","job_id":"j1","job":{`))
		e := h.event(t)
		require.Equal(t, "completed", e.Job["status"])
		require.Len(t, e.Results, 3)
		require.EqualValues(t, 3, e.Results[2]["row"])
		require.Equal(t, "user2@j1.example", e.Results[2]["email"])
		require.EqualValues(t, 1, w.rows.dropped.Load())
		w.advance(time.Hour)
		require.Len(t, box.all(), 1, "one event, once it was taken")
	})
}

func TestCallbackContentFollowsTheJob(t *testing.T) {
	for name, c := range map[string]struct {
		set     []func(*store.Job)
		results int
		link    bool
	}{
		"full":              {nil, 3, true},
		"auto, few":         {[]func(*store.Job){withContent(ContentAuto), withRows(10_000)}, 3, true},
		"auto, many":        {[]func(*store.Job){withContent(ContentAuto), withRows(10_001)}, 0, true},
		"link":              {[]func(*store.Job){withContent(ContentLink)}, 0, true},
		"cancelled":         {[]func(*store.Job){func(j *store.Job) { j.State = store.JobCancelled }}, 3, true},
		"failed":            {[]func(*store.Job){func(j *store.Job) { j.State = store.JobFailed }}, 0, false},
		"expired meanwhile": {[]func(*store.Job){func(j *store.Job) { j.State = store.JobExpired }}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, nil, func(t *testing.T, w *testEnv) {
				box := w.receive(receiverAddr+":80", status(200))
				w.finish("j1", receiverURL, c.set...)
				_, log := w.waitForState("j1", store.CallbackDelivered)
				h := box.all()[0]
				e := h.event(t)
				require.Len(t, e.Results, c.results)
				require.Equal(t, c.link, e.ResultsURL != nil)
				require.Equal(t, c.results == 0, log[0].Link)
				if c.results == 0 {
					require.NotContains(t, string(h.body), `"results":`)
					require.EqualValues(t, len(h.body), h.length)
				}
			})
		})
	}
}

func TestJobWithoutURLHasNoCallback(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.finish("j1", "")
		_, err := w.store.Callback("j1")
		require.ErrorIs(t, err, store.ErrNoCallback)
		_, err = w.sender.Resend("j1")
		require.ErrorIs(t, err, store.ErrNoCallback)
	})
}

// The waits are the specified ones, up to a fifth longer; the last failure is final.
func TestCallbackRetriesBySchedule(t *testing.T) {
	detector.Spare(t)
	if testing.Short() {
		t.Skip("two days in a bubble take some seconds")
	}
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		box := w.receive(receiverAddr+":80", status(500))
		w.finish("j1", receiverURL)
		cb, log := w.waitForState("j1", store.CallbackFailed)
		waits := []time.Duration{5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
			6 * time.Hour, 12 * time.Hour, 24 * time.Hour}
		got := box.all()
		require.Len(t, got, len(waits)+1)
		require.Len(t, log, len(got))
		require.Equal(t, len(got), cb.Attempts)
		for i, want := range waits {
			gap := got[i+1].at.Sub(got[i].at)
			require.GreaterOrEqual(t, gap, want)
			require.LessOrEqual(t, gap, want+want/5+pollInterval)
			require.Equal(t, "answered 500", log[i].Error)
		}
		first, last := got[0].event(t), got[len(got)-1].event(t)
		require.NotEqual(t, *first.ResultsURL, *last.ResultsURL, "a link is made anew at each attempt")
		require.EqualValues(t, 1, w.rows.dropped.Load())
	})
}

// A manual resend starts the whole schedule again, and its attempts go on counting.
func TestResendStartsTheScheduleAgain(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		box := w.receive(receiverAddr+":80", status(200, 500, 200))
		w.finish("j1", receiverURL)
		w.waitForState("j1", store.CallbackDelivered)
		began := time.Now()
		cb, err := w.sender.Resend("j1")
		require.NoError(t, err)
		require.Equal(t, store.CallbackPending, cb.State)
		cb, log := w.waitForState("j1", store.CallbackDelivered)
		require.Equal(t, 3, cb.Attempts)
		require.Equal(t, 2, cb.Tries)
		require.Len(t, log, 3)
		require.Equal(t, began, box.all()[1].at, "at once")
	})
}

func TestCallbackSurvivesRestart(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		box := w.receive(receiverAddr+":80", status(500, 500, 200))
		w.finish("j1", receiverURL)
		w.advance(2 * time.Second)
		require.Len(t, box.all(), 1)
		w.restart()
		w.advance(20 * time.Second)
		require.Len(t, box.all(), 2)
		w.restart()
		cb, _ := w.waitForState("j1", store.CallbackDelivered)
		require.Equal(t, 3, cb.Attempts)
	})
}

// An attempt that a stop interrupts does not count and is made again.
func TestInterruptedCallbackIsSentAgain(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.raw(receiverAddr+":80", func(n int, conn net.Conn) {
			io.ReadFull(conn, make([]byte, 64))
			if n == 1 {
				io.Copy(io.Discard, conn)
				return
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		})
		w.finish("j1", receiverURL)
		w.advance(5 * time.Second)
		began := time.Now()
		w.restart()
		require.Less(t, time.Since(began), time.Second, "a stop waits for no receiver")
		cb, log := w.waitForState("j1", store.CallbackDelivered)
		require.Equal(t, 1, cb.Attempts)
		require.Len(t, log, 1)
	})
}

// An answer to an incomplete body does not count as delivered.
func TestCallbackWithOurFailureIsRetried(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.rows.fail.Store(true)
		w.raw(receiverAddr+":80", func(_ int, conn net.Conn) {
			var in []byte
			for buf := make([]byte, 4096); !strings.HasSuffix(string(in), "0\r\n\r\n"); {
				conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
				n, err := conn.Read(buf)
				in = append(in, buf[:n]...)
				if err != nil {
					break
				}
			}
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		})
		w.finish("j1", receiverURL)
		w.advance(3 * time.Second)
		w.rows.fail.Store(false)
		_, log := w.waitForState("j1", store.CallbackDelivered)
		require.Len(t, log, 2)
		require.Equal(t, errInternal.Error(), log[0].Error)
		require.Zero(t, log[0].Status)
	})
}

func TestCallbackIsDeletedWithItsJob(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.receive(receiverAddr+":80", status(500))
		w.finish("j1", receiverURL)
		w.advance(2 * time.Second)
		require.NoError(t, w.store.DeleteJob("j1"))
		w.advance(time.Minute)
		_, err := w.store.Callback("j1")
		require.ErrorIs(t, err, store.ErrNoCallback)
	})
}

// A slow host has at most two attempts at a time and delays no other; an account has at most four.
func TestCallbacksAreLimitedByHostAndAccount(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		var mu sync.Mutex
		open, most := map[string]int{}, map[string]int{}
		slow := func(name string) func(int, net.Conn) {
			return func(_ int, conn net.Conn) {
				for _, k := range []string{name, "all"} {
					mu.Lock()
					open[k]++
					most[k] = max(most[k], open[k])
					mu.Unlock()
				}
				<-time.After(10 * time.Second)
				mu.Lock()
				open[name]--
				open["all"]--
				mu.Unlock()
				io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
			}
		}
		for i := range 4 {
			name := fmt.Sprintf("slow%d.example", i)
			addr := netip.AddrFrom4([4]byte{198, 41, 1, byte(i)})
			w.name(name, addr)
			w.raw(netip.AddrPortFrom(addr, 80).String(), slow(name))
			for k := range 5 {
				w.finish(fmt.Sprintf("slow%d-%d", i, k), "http://"+name+"/")
			}
		}
		w.receive(receiverAddr+":80", status(200))
		w.finish("quick", receiverURL, func(j *store.Job) { j.Account = "another" })
		w.advance(2 * time.Second)
		w.waitForState("quick", store.CallbackDelivered)
		for i := range 4 {
			for k := range 5 {
				w.waitForState(fmt.Sprintf("slow%d-%d", i, k), store.CallbackDelivered)
			}
			require.LessOrEqual(t, most[fmt.Sprintf("slow%d.example", i)], 2)
		}
		require.Equal(t, 4, most["all"])
	})
}

// Any number of callbacks to a hanging host delay another host's callback only briefly.
func TestHangingHostDoesNotHideOtherCallbacks(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.raw(receiverAddr+":80", func(_ int, conn net.Conn) { io.Copy(io.Discard, conn) })
		for i := range 2*store.MaxPage + 10 {
			w.finish(fmt.Sprintf("hang%04d", i), receiverURL)
		}
		const addr = "198.41.0.5"
		w.name("other.example", netip.MustParseAddr(addr))
		w.receive(addr+":80", status(200))
		began := time.Now()
		w.finish("other", "http://other.example/", func(j *store.Job) { j.Account = "another" })
		w.waitForState("other", store.CallbackDelivered)
		require.Less(t, time.Since(began), 10*time.Second)
	})
}

func TestCallbackIsSigned(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		secret, err := w.store.NewCallbackSecret(w.account, "test", time.Now())
		require.NoError(t, err)
		box := w.receive(receiverAddr+":80", status(500, 413, 200))
		w.finish("j1", receiverURL)
		w.waitForState("j1", store.CallbackDelivered)
		verifier, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		ids := map[string]bool{}
		for i, h := range box.all() {
			require.NoError(t, verifier.VerifyIgnoringTimestamp(h.body, h.header), "attempt %d", i+1)
			require.Equal(t, fmt.Sprint(h.at.Unix()), h.header.Get(standardwebhooks.HeaderWebhookTimestamp))
			ids[h.header.Get(standardwebhooks.HeaderWebhookID)] = true
		}
		require.Len(t, box.all(), 3)
		require.Len(t, ids, 1, "one event, one id")
		require.EqualValues(t, 4, w.rows.passes.Load(), "two for each body with results")
	})
}

// After a rotation a receiver that knows either secret can check the signature; a day later only the new one is good.
func TestBothSecretsSignForADay(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		first, err := w.store.NewCallbackSecret(w.account, "test", time.Now())
		require.NoError(t, err)
		second, err := w.store.NewCallbackSecret(w.account, "test", time.Now())
		require.NoError(t, err)
		good := func(secret string, h received) bool {
			verifier, err := standardwebhooks.NewWebhook(secret)
			require.NoError(t, err)
			return verifier.VerifyIgnoringTimestamp(h.body, h.header) == nil
		}
		box := w.receive(receiverAddr+":80", status(200))
		w.finish("j1", receiverURL)
		w.waitForState("j1", store.CallbackDelivered)
		w.advance(store.SecretOverlap)
		w.finish("j2", receiverURL)
		w.waitForState("j2", store.CallbackDelivered)
		got := box.all()
		require.Equal(t, []bool{true, true}, []bool{good(first, got[0]), good(second, got[0])})
		require.Equal(t, []bool{false, true}, []bool{good(first, got[1]), good(second, got[1])})
	})
}

// A body that differs from the signed one is not completed.
func TestCallbackSendsOnlySignedBodies(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		_, err := w.store.NewCallbackSecret(w.account, "test", time.Now())
		require.NoError(t, err)
		w.rows.other.Store(true)
		box := w.receive(receiverAddr+":80", func(_ int, rw http.ResponseWriter, h received) {
			if h.err != nil {
				rw.WriteHeader(400)
			}
		})
		w.finish("j1", receiverURL)
		w.advance(2 * time.Second)
		log, err := w.store.CallbackLog("j1")
		require.NoError(t, err)
		require.NotEmpty(t, log)
		require.NotEqual(t, 200, log[0].Status)
		for _, h := range box.all() {
			require.Error(t, h.err)
		}
	})
}

func TestCallbackLinkOpensResults(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		box := w.receive(receiverAddr+":80", status(200))
		j := w.finish("j1", receiverURL)
		w.finish("j2", "")
		w.waitForState("j1", store.CallbackDelivered)
		u, err := url.Parse(*box.all()[0].event(t).ResultsURL)
		require.NoError(t, err)
		require.Equal(t, "https://verify.example.com/v1/verify/bulk/j1/results", "https://"+u.Host+u.Path)
		expires, sig := u.Query().Get("expires"), u.Query().Get("signature")

		got, err := w.sender.VerifyLink("j1", expires, sig)
		require.NoError(t, err)
		require.Equal(t, j.ID, got.ID)
		for _, bad := range [][3]string{
			{"j2", expires, sig}, {"j3", expires, sig}, {"j1", expires + "0", sig}, {"j1", "+" + expires, sig},
			{"j1", "", sig},
			{"j1", expires, ""}, {"j1", expires, sig[:42]}, {"j1", expires, "A" + sig[1:] + "="},
			{"j1", expires, strings.Repeat("A", 43)},
		} {
			_, err := w.sender.VerifyLink(bad[0], bad[1], bad[2])
			require.ErrorIs(t, err, ErrLinkInvalid, "%q", bad)
		}
		w.restart()
		_, err = w.sender.VerifyLink("j1", expires, sig)
		require.NoError(t, err, "a link outlives a restart")

		require.NoError(t, w.store.DisableUser(w.account, "test", time.Now()))
		_, err = w.sender.VerifyLink("j1", expires, sig)
		require.ErrorIs(t, err, ErrLinkExpired)
		require.NoError(t, w.store.EnableUser(w.account, "test", time.Now()))

		for age, want := range map[time.Duration]error{linkLife - time.Second: nil, linkLife: ErrLinkExpired} {
			old, err := url.Parse(w.sender.resultsURL(j, time.Now().Add(-age)))
			require.NoError(t, err)
			_, err = w.sender.VerifyLink("j1", old.Query().Get("expires"), old.Query().Get("signature"))
			require.ErrorIs(t, err, want)
		}
	})
}

func TestCallbackLinkEndsWithItsJob(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		j := w.finish("j1", "")
		u, err := url.Parse(w.sender.resultsURL(j, time.Now()))
		require.NoError(t, err)
		expires, sig := u.Query().Get("expires"), u.Query().Get("signature")
		_, err = w.store.UpdateJob("j1", func(j *store.Job) error { j.State = store.JobExpired; return nil })
		require.NoError(t, err)
		_, err = w.sender.VerifyLink("j1", expires, sig)
		require.ErrorIs(t, err, ErrLinkExpired)
		require.NoError(t, w.store.DeleteJob("j1"))
		_, err = w.sender.VerifyLink("j1", expires, sig)
		require.Error(t, err)
		require.False(t, errors.Is(err, ErrLinkExpired), "nothing is told of what is not known")
	})
}
