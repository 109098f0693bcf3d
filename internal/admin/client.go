package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"probity/internal/apiclient"
	"probity/internal/console"
)

// client sends the requests of one command to the admin API: of a running server, or of this process on a data folder.
// A path names a user by e-mail address or id.
type client struct {
	api   *apiclient.Client
	close func() error
}

// maxResponse bounds the JSON of one answer.
const maxResponse = 256 << 20

// NewRemote makes the client of a running server, with the admin's key of the environment.
func NewRemote(con *console.IO, server string) (*apiclient.Client, error) {
	return newRemote(con, server, KeyEnv, "a live key of an admin with the scope admin")
}

// CustomerKeyEnv names the environment variable with the key of an account, for commands about its jobs.
const CustomerKeyEnv = "PROBITY_KEY"

// NewCustomer makes the client of a running server for commands about jobs, with the account's key of the environment,
// else the admin's.
func NewCustomer(con *console.IO, server string) (*apiclient.Client, error) {
	if os.Getenv(CustomerKeyEnv) == "" && os.Getenv(KeyEnv) != "" {
		return NewRemote(con, server)
	}
	c, err := newRemote(con, server, CustomerKeyEnv, "a key of the account with the scope jobs")
	if err == nil {
		c.KeyEnv = "" // the server's words fit better than those about an admin's key
	}
	return c, err
}

func newRemote(con *console.IO, server, env, what string) (*apiclient.Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%w: --server %q; write a URL such as https://probity.example.com", console.ErrUsage,
			server)
	}
	key := os.Getenv(env)
	if key == "" {
		return nil, fmt.Errorf("%w: set %s to %s", console.ErrUsage, env, what)
	}
	host, err := netip.ParseAddr(u.Hostname())
	if loopback := u.Hostname() == "localhost" || err == nil && host.IsLoopback(); u.Scheme == "http" && !loopback {
		fmt.Fprintln(con.Err, "warning: the key travels to", u.Host, "unencrypted; use https")
	}
	web := &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext},
		CheckRedirect: func(req *http.Request, _ []*http.Request) error {
			return fmt.Errorf("the server sends us on to %s: name that as --server", req.URL.Host)
		},
	}
	return &apiclient.Client{Base: strings.TrimSuffix(server, "/"), Key: key, HTTP: web,
		Advice: "name the server's public URL as --server", KeyEnv: env}, nil
}

// call sends what to an admin path and decodes the answer into v; both may be nil.
func (c client) call(ctx context.Context, method, path string, what, v any) error {
	var body io.Reader
	kind := ""
	if what != nil {
		b, err := json.Marshal(what)
		if err != nil {
			return err
		}
		body, kind = bytes.NewReader(b), "application/json"
	}
	answer, err := c.api.Call(ctx, method, "/v1/admin/"+path, kind, body)
	if refused, ok := errors.AsType[*apiclient.RefusedError](err); ok && refused.StatusCode == http.StatusNotFound {
		return cmp.Or(notFound(path, what), err)
	}
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

// notFound says what a request names that there is not, and which command shows what there is. It is nil if the request
// names nothing.
func notFound(path string, what any) error {
	path, query, _ := strings.Cut(path, "?")
	kind, rest, _ := strings.Cut(path, "/")
	q, _ := url.ParseQuery(query) // it is ours
	name, _, _ := strings.Cut(rest, "/")
	if text, err := url.PathUnescape(name); err == nil {
		name = text
	}
	body, _ := what.(map[string]any)
	account, _ := body["user"].(string)
	account = cmp.Or(account, q.Get("user"))
	switch {
	case kind == "keys" && name != "":
		return fmt.Errorf("there is no key %s: key list shows their ids", console.Printable(name))
	case kind == "erasures" && name != "":
		return fmt.Errorf("there is no erasure %s: erase --list shows what there is", console.Printable(name))
	case kind == "suppressions" && q.Has("name"):
		return fmt.Errorf("%s is not on the list: suppress list shows what is",
			console.Printable(strings.TrimSpace(q.Get("kind")+" "+q.Get("name"))))
	case name != "" || account != "":
		return fmt.Errorf("there is no account %s: name it by its e-mail address or its id",
			console.Printable(cmp.Or(name, account)))
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
