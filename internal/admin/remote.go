package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"probity/api/record"
	"probity/internal/apiclient"
	"probity/internal/console"
	"probity/store"
)

// remote is the admin client of a running server.
type remote struct{ client apiclient.Client }

// maxResponse bounds the JSON of one answer.
const maxResponse = 256 << 20

func newRemote(con *console.IO, server, key string) (*remote, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%w: --server %q; write a URL such as https://probity.example.com", console.ErrUsage, server)
	}
	if key == "" {
		return nil, fmt.Errorf("%w: set %s to a live key of an admin", console.ErrUsage, KeyEnv)
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		fmt.Fprintln(con.Err, "warning: the key travels to", u.Host, "unencrypted; use https")
	}
	web := &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext},
		CheckRedirect: func(req *http.Request, _ []*http.Request) error {
			return fmt.Errorf("the server sends us on to %s: name that as --server", req.URL.Host)
		},
	}
	return &remote{apiclient.Client{Base: strings.TrimSuffix(server, "/"), Key: key, HTTP: web}}, nil
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

func (r *remote) Close() error {
	r.client.HTTP.CloseIdleConnections()
	return nil
}

// call sends what to an admin path and decodes the answer into v; both may be nil.
func (r *remote) call(ctx context.Context, method, path string, what, v any) error {
	var body io.Reader
	kind := ""
	if what != nil {
		b, err := json.Marshal(what)
		if err != nil {
			return err
		}
		body, kind = bytes.NewReader(b), "application/json"
	}
	answer, err := r.client.Call(ctx, method, "/v1/admin/"+path, kind, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	if v == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(answer, maxResponse)).Decode(v); err != nil {
		return fmt.Errorf("answer of the server: %w", err)
	}
	return nil
}

// withQuery appends parameters, names and values in turn; empty values are left out.
func withQuery(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

func (r *remote) AddUser(ctx context.Context, n store.NewUser) (u userView, err error) {
	what := map[string]any{"email": n.Email, "role": n.Role, "credits": n.Credits, "limits": n.Limits}
	err = r.call(ctx, http.MethodPost, "users", what, &u)
	return u, err
}

func (r *remote) Users(ctx context.Context) ([]userView, error) {
	var v struct{ Users []userView }
	err := r.get(ctx, "users", &v)
	return v.Users, err
}

// get reads an admin path.
func (r *remote) get(ctx context.Context, path string, v any) error {
	return r.call(ctx, http.MethodGet, path, nil, v)
}

func (r *remote) SetDisabled(ctx context.Context, user string, disabled bool) (u userView, err error) {
	verb := "/enable"
	if disabled {
		verb = "/disable"
	}
	err = r.call(ctx, http.MethodPost, "users/"+url.PathEscape(user)+verb, nil, &u)
	return u, err
}

func (r *remote) SetLimits(ctx context.Context, user string, l store.Limits) (u userView, err error) {
	err = r.call(ctx, http.MethodPut, "users/"+url.PathEscape(user)+"/limits", l, &u)
	return u, err
}

func (r *remote) ResetLink(ctx context.Context, user string) (v resetView, err error) {
	err = r.call(ctx, http.MethodPost, "users/"+url.PathEscape(user)+"/reset", nil, &v)
	return v, err
}

func (r *remote) TOTPOff(ctx context.Context, user string) (u userView, err error) {
	err = r.call(ctx, http.MethodPost, "users/"+url.PathEscape(user)+"/totp-off", nil, &u)
	return u, err
}

func (r *remote) CreateKey(ctx context.Context, user string, n store.NewKey) (k keyView, err error) {
	what := map[string]any{"user": user, "name": n.Name, "test": n.Test, "scopes": n.Scopes}
	if !n.Expires.IsZero() {
		what["expires_at"] = n.Expires.Format(time.RFC3339)
	}
	if n.Networks != nil {
		what["networks"] = n.Networks
	}
	err = r.call(ctx, http.MethodPost, "keys", what, &k)
	return k, err
}

func (r *remote) Keys(ctx context.Context, user string) ([]keyView, error) {
	var v struct{ Keys []keyView }
	err := r.get(ctx, withQuery("keys", "user", user), &v)
	return v.Keys, err
}

func (r *remote) RevokeKey(ctx context.Context, id string) error {
	return r.call(ctx, http.MethodDelete, "keys/"+url.PathEscape(id), nil, nil)
}

func (r *remote) Grant(ctx context.Context, g grant) (v creditsView, err error) {
	err = r.call(ctx, http.MethodPost, "credits", g, &v)
	return v, err
}

func (r *remote) Balance(ctx context.Context, user string) (v creditsView, err error) {
	err = r.get(ctx, withQuery("credits", "user", user), &v)
	return v, err
}

func (r *remote) Ledger(ctx context.Context, user string, before uint64, limit int) ([]ledgerEntryView, error) {
	cursor := ""
	if before > 0 {
		cursor = strconv.FormatUint(before, 10)
	}
	var v struct{ Entries []ledgerEntryView }
	err := r.get(ctx, withQuery("ledger", "user", user, "limit", strconv.Itoa(limit), "cursor", cursor), &v)
	return v.Entries, err
}

func (r *remote) Suppress(ctx context.Context, kind, name, note string) (w suppressionView, err error) {
	what := map[string]any{"name": name, "note": note}
	if kind != "" {
		what["kind"] = kind
	}
	err = r.call(ctx, http.MethodPost, "suppressions", what, &w)
	return w, err
}

func (r *remote) Suppressions(ctx context.Context) ([]suppressionView, error) {
	var v struct{ Suppressions []suppressionView }
	err := r.get(ctx, "suppressions", &v)
	return v.Suppressions, err
}

func (r *remote) Unsuppress(ctx context.Context, kind, name string) error {
	return r.call(ctx, http.MethodDelete, withQuery("suppressions", "kind", kind, "name", name), nil, nil)
}

func (r *remote) Erase(ctx context.Context, address string) (e record.Receipt, err error) {
	err = r.call(ctx, http.MethodPost, "erase", map[string]any{"address": address}, &e)
	return e, err
}

func (r *remote) Receipt(ctx context.Context, id string) (e record.Receipt, err error) {
	err = r.get(ctx, "erasures/"+url.PathEscape(id), &e)
	return e, err
}

func (r *remote) Receipts(ctx context.Context) ([]record.Receipt, error) {
	var v struct{ Erasures []record.Receipt }
	err := r.get(ctx, "erasures?limit=100", &v)
	return v.Erasures, err
}

// Backup downloads the copy.
func (r *remote) Backup(ctx context.Context, dir string, jobs bool) error {
	path := "/v1/admin/backup"
	if jobs {
		path += "?jobs=true"
	}
	body, err := r.client.Call(ctx, http.MethodPost, path, "", nil)
	if err != nil {
		return err
	}
	return errors.Join(unpackBackup(body, dir), body.Close())
}
