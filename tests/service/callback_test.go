package service_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/world"
	"probity/store"
)

// event is one callback as received.
type event struct {
	Event string  `json:"event"`
	ID    string  `json:"job_id"`
	Job   bulkJob `json:"job"`
	URL   string  `json:"results_url"`
	at    time.Time
	rows  int64 // of results, which are counted as they come; -1: the body has none
	err   error // of reading it
}

// callbackReceiver is a customer's web server for callbacks, on a loopback address of its own: attempts are limited by
// host.
type callbackReceiver struct {
	url           string
	calls         atomic.Int32
	otherRequests atomic.Int32 // requests that are not callbacks
	events        chan event
}

// newCallbackReceiver serves until the test ends. respond gets the number of the call, from 1, and the event.
func newCallbackReceiver(t *testing.T, host string,
	respond func(w http.ResponseWriter, call int, e event)) *callbackReceiver {
	t.Helper()
	return newNamedReceiver(t, host, host, respond)
}

// newNamedReceiver is newCallbackReceiver whose URL has a name.
func newNamedReceiver(t *testing.T, name, host string,
	respond func(w http.ResponseWriter, call int, e event)) *callbackReceiver {
	t.Helper()
	r := &callbackReceiver{events: make(chan event, 16)}
	l, err := net.Listen("tcp", host+":0")
	require.NoError(t, err)
	r.url = fmt.Sprintf("http://%s:%d/hook", name, l.Addr().(*net.TCPAddr).Port)
	web := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.Method != http.MethodPost || q.URL.Path != "/hook" {
				r.otherRequests.Add(1)
				return
			}
			call := int(r.calls.Add(1))
			e := readEvent(q.Body)
			respond(w, call, e)
			r.events <- e
		})}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	t.Cleanup(func() {
		_ = web.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return r
}

func (r *callbackReceiver) count() int { return int(r.calls.Load()) }

// next is the next event that was answered.
func (r *callbackReceiver) next(t *testing.T, p *serviceEnv) event {
	t.Helper()
	select {
	case e := <-r.events:
		require.NoError(t, e.err)
		require.Equal(t, "bulk.finished", e.Event)
		return e
	case <-p.ctx.Done():
		require.Fail(t, "no callback came")
		return event{}
	}
}

// readEvent reads a callback in flat memory. The rows of results must be numbered without a gap.
func readEvent(body io.Reader) event {
	e := event{rows: -1, at: time.Now()}
	d := json.NewDecoder(body)
	e.err = e.read(d)
	if e.err == nil {
		_, e.err = io.Copy(io.Discard, body)
	}
	return e
}

func (e *event) read(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		switch name {
		case "event":
			err = d.Decode(&e.Event)
		case "job_id":
			err = d.Decode(&e.ID)
		case "job":
			err = d.Decode(&e.Job)
		case "results_url":
			err = d.Decode(&e.URL)
		case "results":
			err = e.readRows(d)
		default:
			err = fmt.Errorf("an unknown field %v", name)
		}
		if err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func (e *event) readRows(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return err
	}
	for e.rows = 0; d.More(); {
		var row struct {
			Row    int64
			Status string
		}
		if err := d.Decode(&row); err != nil {
			return err
		}
		e.rows++
		if row.Row != e.rows {
			return fmt.Errorf("row %d stands at %d", row.Row, e.rows)
		}
	}
	_, err := d.Token()
	return err
}

func answerWith(status int) func(http.ResponseWriter, int, event) {
	return func(w http.ResponseWriter, _ int, _ event) { w.WriteHeader(status) }
}

// callbackCase is a receiver of one kind, and the expected log of attempts.
type callbackCase struct {
	name    string
	respond func(w http.ResponseWriter, call int, e event)
	resend  int // after so many attempts the next one is requested, rather than waited for; 0: never
	status  string
	log     []attemptLine

	customer *customer
	receiver *callbackReceiver
	job      bulkJob
}

// attemptLine is what the tests read of an attempt: its status, and a part of its error.
type attemptLine struct {
	status int
	error  string
	link   bool
}

func callbackCases() []callbackCase {
	redirect := func(w http.ResponseWriter, _ int, _ event) { // to the receiver itself, which would count it
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
	}
	return []callbackCase{
		{name: "takes it", respond: answerWith(http.StatusNoContent), status: "delivered",
			log: []attemptLine{{204, "", false}}},
		{name: "gone", respond: answerWith(http.StatusGone), status: "stopped",
			log: []attemptLine{{410, "not sent again", false}}},
		{name: "redirects", respond: redirect, status: "pending",
			log: []attemptLine{{302, "redirects are not followed", false}}},
		{name: "fails once", respond: firstThen(1, answerWith(http.StatusInternalServerError)), status: "delivered",
			log: []attemptLine{{500, "answered 500", false}, {200, "", false}}},
		{name: "too large", respond: firstThen(1, answerWith(http.StatusRequestEntityTooLarge)), status: "delivered",
			log: []attemptLine{{413, "too large", false}, {200, "", true}}},
		{name: "resets", respond: firstThen(2, reset), resend: 2, status: "delivered",
			log: []attemptLine{{0, "before the whole body was taken", false},
				{0, "before the whole body was taken", false}, {200, "", true}}},
		{name: "answers after 15 s", respond: answerLate, status: "pending",
			log: []attemptLine{{0, "no answer within 15 seconds", false}}},
	}
}

// firstThen does something n times, and then accepts callbacks.
func firstThen(n int, do func(http.ResponseWriter, int, event)) func(http.ResponseWriter, int, event) {
	return func(w http.ResponseWriter, call int, e event) {
		if call <= n {
			do(w, call, e)
		}
	}
}

// reset closes the connection without an answer, like a killed process.
func reset(w http.ResponseWriter, _ int, _ event) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// answerLate answers 200 only after the server has given up.
func answerLate(w http.ResponseWriter, _ int, _ event) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.Copy(io.Discard, conn)
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
}

// testCallbacks sends callbacks of the same list to receivers of every kind.
func testCallbacks(t *testing.T, p *serviceEnv) {
	data := t.TempDir()
	list, _ := p.drawList(t, 300, 24)
	cases := callbackCases()
	customers := make([]*customer, len(cases))
	withStoppedStore(t, data, func(s *store.Store) {
		for i := range cases {
			customers[i] = p.addCustomer(t, s, fmt.Sprintf("c%d@customer.example", i), 10_000, unlimited)
		}
	})
	s := startServer(t, p, data, "127.0.1.4")
	for i := range cases { // all at once: some are slow
		customers[i].base = s.base
		cases[i].start(t, customers[i], list, fmt.Sprintf("127.0.3.%d", i+1))
	}
	for i := range cases {
		t.Run(cases[i].name, func(t *testing.T) { cases[i].check(t, p) })
	}
	customers[0].requirePrivateRefused(t, list)
	customers[0].requireNamesByDNS(t, p, list)
	s.stop(t)
}

// requireNamesByDNS sends a callback to a name that only the resolver of --dns knows.
func (c *customer) requireNamesByDNS(t *testing.T, p *serviceEnv, list []byte) {
	hosts := p.world.Hosts()
	i := slices.IndexFunc(hosts, func(h world.Host) bool {
		return h.Role != world.Dead && h.Addrs[0].IsLoopback() &&
			h.Addrs[0].Is4()
	})
	require.GreaterOrEqual(t, i, 0)
	r := newNamedReceiver(t, hosts[i].Name, hosts[i].Addrs[0].String(), answerWith(http.StatusOK))
	j := c.upload(t, field("callback_url", r.url), fileOf(list))
	require.Equal(t, j.ID, r.next(t, p).ID)
}

// start uploads a list with a callback.
func (k *callbackCase) start(t *testing.T, c *customer, list []byte, host string) {
	k.customer, k.receiver = c, newCallbackReceiver(t, host, k.respond)
	k.job = c.upload(t, field("callback_url", k.receiver.url), fileOf(list))
}

// check waits for the attempts, and compares their log with what the receiver saw.
func (k *callbackCase) check(t *testing.T, p *serviceEnv) {
	c, r, j := k.customer, k.receiver, k.job
	for n := range k.log {
		p.eventually(t, fmt.Sprintf("attempt %d", n+1), func() bool { return len(c.callback(t, j.ID).Attempts) > n })
		if n+1 == k.resend {
			c.resend(t, j.ID)
		}
	}
	got := c.callback(t, j.ID)
	require.Equal(t, k.status, got.Status)
	require.Equal(t, k.status == "pending", got.Next != nil)
	if k.status != "pending" { // otherwise there may be more by now
		require.Len(t, got.Attempts, len(k.log))
		require.Equal(t, len(k.log), r.count(), "calls of the receiver")
	}
	require.Zero(t, r.otherRequests.Load(), "a redirect was followed")
	if len(got.Attempts) > 1 {
		require.GreaterOrEqual(t, got.Attempts[1].At.Sub(got.Attempts[0].At), 5*time.Second, "the schedule")
	}
	for i, want := range k.log {
		a := got.Attempts[i]
		require.Equal(t, i+1, a.Number)
		require.Equal(t, want.status, a.Status)
		require.Contains(t, a.Error, want.error)
		require.Equal(t, want.link, a.Link)
		k.requireEvent(t, r.next(t, p), want)
	}
}

// requireEvent compares an event with what its attempt must have sent.
func (k *callbackCase) requireEvent(t *testing.T, e event, want attemptLine) {
	t.Helper()
	require.Equal(t, k.job.ID, e.ID)
	rows := k.job.TotalRows
	if want.link {
		rows = -1
	}
	require.Equal(t, rows, e.rows, "results in the body")
	require.Equal(t, "http", strings.SplitN(e.Job.Results, ":", 2)[0], "the record's own link is whole, too")
	k.customer.requireLink(t, e)
}

// callbackView is the log of attempts as the API shows it.
type callbackView struct {
	Status   string
	Next     *time.Time `json:"next_attempt_at"`
	Attempts []struct {
		Number, Status int
		At             time.Time
		Error          string
		Link           bool
	}
}

func (c *customer) callback(t *testing.T, id string) (v callbackView) {
	t.Helper()
	r, err := c.request(http.MethodGet, "/v1/verify/bulk/"+id+"/callback", "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	require.NoError(t, json.Unmarshal(r.body, &v), "%s", r.body)
	return v
}

func (c *customer) resend(t *testing.T, id string) {
	t.Helper()
	r, err := c.request(http.MethodPost, "/v1/verify/bulk/"+id+"/callback", "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, r.status, "%s", r.body)
}

// requireLink fetches the results by the link of an event, which needs no key. Only its path is used: the server does
// not know its public URL.
func (c *customer) requireLink(t *testing.T, e event) {
	t.Helper()
	at := strings.Index(e.URL, "/v1/")
	require.Positive(t, at, e.URL)
	resp, err := http.Get(c.base + e.URL[at:])
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	byLink, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.True(t, bytes.Equal(c.results(t, e.ID, ""), byLink), "the link gives another file")
}

// requirePrivateRefused tries addresses that are private and were not allowed.
func (c *customer) requirePrivateRefused(t *testing.T, list []byte) {
	for _, url := range []string{"http://10.0.0.1/hook", "http://[::1]/hook", "http://169.254.169.254/latest",
		"ftp://example.com/", "http://me:pw@example.com/"} {
		contentType, body := multipartOf("b", fileOf(list), field("callback_url", url))
		r, err := c.request(http.MethodPost, "/v1/verify/bulk", contentType, body)
		require.NoError(t, err)
		require.Equal(t, http.StatusUnprocessableEntity, r.status, url)
		require.Contains(t, detailOf(t, r), "callback_url")
	}
}
