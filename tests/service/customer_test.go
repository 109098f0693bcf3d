package service_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/score"
	"probity/bench/sim/world"
	"probity/engine"
	"probity/internal/apiclient"
	"probity/store"
)

// customer is an account for its owner: a key and a server.
type customer struct {
	ctx        context.Context
	account    string
	key, keyID string
	base       string
}

// addCustomer makes an account with a key in a stopped server's store.
func (p *serviceEnv) addCustomer(t *testing.T, s *store.Store, email string, credits int64,
	limits store.Limits) *customer {
	t.Helper()
	return p.addCustomerAs(t, s, store.NewUser{Email: email, Credits: credits, Limits: limits})
}

func (p *serviceEnv) addCustomerAs(t *testing.T, s *store.Store, n store.NewUser) *customer {
	t.Helper()
	u, _, err := s.AddUser(p.ctx, n, "test", time.Now())
	require.NoError(t, err)
	key, k, err := s.CreateKey(u.ID, store.NewKey{Name: "first", Scopes: scopesOf(n)}, "test", time.Now())
	require.NoError(t, err)
	return &customer{ctx: p.ctx, account: u.ID, key: key, keyID: k.ID}
}

// scopesOf are all scopes that the key of an account can have.
func scopesOf(n store.NewUser) store.Scopes {
	if n.Role == store.Admin {
		return store.DefaultScopes | store.ScopeAccount | store.ScopeAdmin
	}
	return store.DefaultScopes | store.ScopeAccount
}

// unlimited are limits that no test reaches.
var unlimited = store.Limits{SinglePerMinute: 100_000, BulkPerHour: 100_000}

// reply is a complete answer of the server.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// request sends one request; an error means that the connection failed.
func (c *customer) request(method, path, contentType string, body io.Reader, header ...string) (reply, error) {
	resp, err := c.open(method, path, contentType, body, header...)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, b}, err
}

// open is request for an answer that is too long for memory. The caller closes its body.
func (c *customer) open(method, path, contentType string, body io.Reader, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(c.ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return http.DefaultClient.Do(r)
}

// verifySingle verifies one address.
func (c *customer) verifySingle(email string) (reply, error) {
	body, err := json.Marshal(map[string]any{"email": email, "timeout": 30})
	if err != nil {
		return reply{}, err
	}
	return c.request(http.MethodPost, "/v1/verify/single", "application/json", bytes.NewReader(body))
}

// formPart is one part of a form; a file has a filename.
type formPart struct {
	name, filename string
	content        io.Reader
}

func field(name, value string) formPart {
	return formPart{name: name, content: strings.NewReader(value)}
}

func fileOf(content []byte) formPart { return formPart{"file", "list.csv", bytes.NewReader(content)} }

// multipartOf is a multipart body with its type (RFC 7578), which is read as it is sent.
func multipartOf(boundary string, parts ...formPart) (contentType string, body io.Reader) {
	var all []io.Reader
	for _, p := range parts {
		head := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + p.name + `"`
		if p.filename != "" {
			head += `; filename="` + p.filename + "\"\r\nContent-Type: text/csv"
		}
		all = append(all, strings.NewReader(head+"\r\n\r\n"), p.content, strings.NewReader("\r\n"))
	}
	all = append(all, strings.NewReader("--"+boundary+"--\r\n"))
	return "multipart/form-data; boundary=" + boundary, io.MultiReader(all...)
}

// upload sends a list, which must be accepted.
func (c *customer) upload(t *testing.T, parts ...formPart) bulkJob {
	t.Helper()
	contentType, body := multipartOf("a-boundary", parts...)
	r, err := c.request(http.MethodPost, "/v1/verify/bulk", contentType, body)
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, r.status, "%s", r.body)
	return jobOf(t, r.body)
}

// bulkJob is what the tests read of a job record.
type bulkJob struct {
	apiclient.Job
	Duplicates int64   `json:"duplicate_rows"`
	Blank      int64   `json:"blank_rows"`
	Reserved   int64   `json:"credits_reserved"`
	Used       int64   `json:"credits_used"`
	Refunded   int64   `json:"credits_refunded"`
	ResultsSHA string  `json:"results_sha256"`
	Bytes      int64   `json:"results_bytes"`
	Results    string  `json:"results_url"`
	Callback   *string `json:"callback_status"`
	Attempts   int     `json:"callback_attempts"`
	Damage     string  `json:"damage"`
}

func jobOf(t *testing.T, body []byte) (j bulkJob) {
	t.Helper()
	require.NoError(t, json.Unmarshal(body, &j), "%s", body)
	return j
}

func (j bulkJob) finished() bool { return store.JobState(j.Status).Finished() }

// getJob reads a job; wait delays the answer until its state changes.
func (c *customer) getJob(t *testing.T, id, query string) bulkJob {
	t.Helper()
	r, err := c.request(http.MethodGet, "/v1/verify/bulk/"+id+query, "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	return jobOf(t, r.body)
}

// follow polls a job until it is finished.
func (c *customer) follow(t *testing.T, id string) bulkJob {
	t.Helper()
	for {
		if j := c.getJob(t, id, "?wait=10"); j.finished() {
			return j
		}
	}
}

// results downloads a job's result file.
func (c *customer) results(t *testing.T, id, query string) []byte {
	t.Helper()
	r, err := c.request(http.MethodGet, "/v1/verify/bulk/"+id+"/results"+query, "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.status)
	return r.body
}

// credits are what the API says of the account.
func (c *customer) credits(t *testing.T) (balance, reserved int64) {
	t.Helper()
	r, err := c.request(http.MethodGet, "/v1/credits", "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	var v struct{ Balance, Reserved int64 }
	require.NoError(t, json.Unmarshal(r.body, &v))
	return v.Balance, v.Reserved
}

// billable counts the distinct addresses of a result file that have a verdict which costs.
func billable(t *testing.T, result io.Reader) (n int64) {
	t.Helper()
	rows := csv.NewReader(result)
	head, err := rows.Read()
	require.NoError(t, err)
	email, status := slices.Index(head, "email"), slices.Index(head, "verify_status")
	paid := map[string]bool{}
	for {
		row, err := rows.Read()
		if err == io.EOF {
			return int64(len(paid))
		}
		require.NoError(t, err)
		switch row[status] {
		case "VALID", "RISKY", "INVALID":
			paid[foldedCell(row[email])] = true
		case "UNKNOWN", "":
		default:
			require.Fail(t, "no such status", row[status])
		}
	}
}

// foldedCell is the folded address of a cell; the cell itself if it is not an address.
func foldedCell(cell string) string {
	cell = engine.Trim(cell)
	if a, err := engine.Parse(cell); err == nil {
		return a.Folded()
	}
	return cell
}

// drawList is a list of the simulated internet, and its truth.
func (p *serviceEnv) drawList(t *testing.T, rows int, seed uint64) (list, truth []byte) {
	t.Helper()
	var l, tr bytes.Buffer
	require.NoError(t, world.WriteList(&l, p.world, rows, seed))
	list = bytes.Clone(l.Bytes())
	require.NoError(t, score.WriteTruth(&tr, p.world, &l))
	return list, tr.Bytes()
}

// eventually polls a condition every few milliseconds, and fails at the deadline of the test.
func (p *serviceEnv) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-p.ctx.Done():
			require.Fail(t, "in vain: "+what)
		case <-look.C:
		}
	}
}
