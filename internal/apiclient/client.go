package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"probity/internal/wholefile"
)

// Client is a client of a server's public API, or of its admin listener, which takes no key.
type Client struct {
	Base, Key string
	HTTP      *http.Client
	Advice    string // how to give Base, such as "name the server's public URL as --server"
	KeyEnv    string // the environment variable that gives Key, an admin's
}

// ForAdminListener makes a client of the admin listener of a process, which the flag --admin names.
func ForAdminListener(hostPort, process string) *Client {
	return &Client{Base: "http://" + hostPort, HTTP: http.DefaultClient,
		Advice: "name the admin listener of " + process + " as --admin HOST:PORT"}
}

// maxErrorBody bounds the body of an error answer.
const maxErrorBody = 64 << 10

// Call sends a request and returns the body of a 2xx answer. Any other answer is a *RefusedError.
func (c *Client) Call(ctx context.Context, method, path, contentType string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Key)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, c.sendError(err)
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	name, _, _ := strings.Cut(path, "?")
	return nil, &RefusedError{resp.StatusCode, c.refusalText(method+" "+name, resp)}
}

// maxAnswer bounds what CallJSON returns.
const maxAnswer = 16 << 20

// CallJSON sends a request and returns the body of its answer; what is its JSON body, nil for none. Errors are those of
// Call; an answer of more than 16 MiB is one too.
func (c *Client) CallJSON(ctx context.Context, method, path string, what any) (json.RawMessage, error) {
	var body io.Reader
	contentType := ""
	if what != nil {
		b, err := json.Marshal(what)
		if err != nil {
			return nil, err
		}
		body, contentType = bytes.NewReader(b), "application/json"
	}
	answer, err := c.Call(ctx, method, path, contentType, body)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	b, err := io.ReadAll(io.LimitReader(answer, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("the answer of %s is longer than 16 MiB", c.Base)
	}
	return b, err
}

// refusalText is the server's detail, or else says what answers a request and what to do.
func (c *Client) refusalText(request string, resp *http.Response) string {
	if resp.StatusCode == http.StatusUnauthorized && c.KeyEnv != "" {
		return c.KeyEnv + " is missing, wrong, revoked or expired: set it to a live key of an admin with the scope admin"
	}
	var refusal struct{ Detail string }
	err := json.NewDecoder(io.LimitReader(resp.Body, maxErrorBody)).Decode(&refusal)
	// no command asks for a path that a server lacks
	wrongPath := resp.StatusCode == http.StatusNotFound && c.Advice != ""
	if err == nil && refusal.Detail != "" && !wrongPath {
		return refusal.Detail
	}
	text := fmt.Sprintf("%s answers %s with %s", c.Base, request, resp.Status)
	if resp.StatusCode >= http.StatusInternalServerError {
		return text + ": the server or a proxy before it failed: see its log, then try again"
	}
	if c.Advice != "" {
		return text + ": " + c.Advice
	}
	return text
}

// sendError says what does not answer, and what to do. The redirect that a client refuses is an answer.
func (c *Client) sendError(err error) error {
	if sent, ok := errors.AsType[*url.Error](err); ok {
		err = sent.Err // it names the request
	}
	op, isNetwork := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s speaks HTTP without TLS: begin the URL with http://, or %s", c.Base, c.Advice)
	case isNetwork && op.Err != nil:
		err = op.Err
	case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w", c.Base, err)
	}
	if c.Advice == "" {
		return fmt.Errorf("%s does not answer: %w", c.Base, err)
	}
	return fmt.Errorf("%s does not answer (%w): start it if it does not run, else %s", c.Base, err, c.Advice)
}

// RefusedError is an answer that is not 2xx.
type RefusedError struct {
	StatusCode int
	text       string // for a person
}

// Error says what was refused, in the server's words where it has any, and what to do.
func (e *RefusedError) Error() string { return e.text }

// Job is the part of a job record that the command line shows.
type Job struct {
	ID           string           `json:"job_id"`
	Status       string           `json:"status"`
	TotalRows    int64            `json:"total_rows"`
	Unique       int64            `json:"unique_addresses"`
	Duplicates   int64            `json:"duplicate_rows"`
	Blank        int64            `json:"blank_rows"`
	Processed    int64            `json:"processed"`
	Rate         float64          `json:"rows_per_second"`
	PendingRetry int64            `json:"pending_retry"`
	Waiting      int64            `json:"waiting_budget"`
	Counts       map[string]int64 `json:"counts"`
	Reasons      map[string]int64 `json:"reasons"`
	Error        string           `json:"error"`
}

// Job reads a job.
func (c *Client) Job(ctx context.Context, id string) (v Job, err error) {
	body, err := c.Call(ctx, http.MethodGet, "/v1/verify/bulk/"+id, "", nil)
	if err != nil {
		return v, err
	}
	defer body.Close()
	return v, json.NewDecoder(body).Decode(&v)
}

// Upload streams a list as multipart form data, and returns its new job.
func (c *Client) Upload(ctx context.Context, list string) (v Job, err error) {
	f, err := os.Open(list)
	if err != nil {
		return v, err
	}
	defer f.Close()
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() {
		part, err := form.CreateFormFile("file", filepath.Base(list))
		if err == nil {
			_, err = io.Copy(part, f)
		}
		w.CloseWithError(errors.Join(err, form.Close())) // a nil error is io.EOF to the reader
	}()
	body, err := c.Call(ctx, http.MethodPost, "/v1/verify/bulk", form.FormDataContentType(), r)
	_ = r.Close() // ends the writer, even if the call failed
	if err != nil {
		return v, err
	}
	defer body.Close()
	return v, json.NewDecoder(body).Decode(&v)
}

// Download writes the result of a job to a file.
func (c *Client) Download(ctx context.Context, id, result string) error {
	body, err := c.Call(ctx, http.MethodGet, "/v1/verify/bulk/"+id+"/results", "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return wholefile.Replace(result, func(w io.Writer) error {
		_, err := io.Copy(w, body)
		return err
	})
}
