package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"probity/internal/apiclient"
)

// callTimeout bounds a call of the API: a batch may take a minute, and waits for its turn.
const callTimeout = 90 * time.Second

// instructions are what a client tells its model about the tools.
const instructions = "Probity verifies e-mail addresses without sending mail. VALID: the mail server accepted the " +
	"address and refused a made-up one. RISKY: mail may arrive. INVALID: the address does not exist. UNKNOWN: it " +
	"could not be determined, and costs nothing; try again later. verify, verify_batch and explain cost one credit " +
	"for each address with another verdict. Lists of more than 1,000 addresses are uploaded to the API as jobs."

// Serve offers the tools on in and out, one JSON-RPC message a line, until in or ctx ends.
func Serve(ctx context.Context, client *apiclient.Client, version string, in io.Reader, out io.Writer) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "probity", Title: "Probity", Version: version},
		&mcp.ServerOptions{Instructions: instructions})
	addTools(server, &api{client})
	return server.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: unclosed{out}})
}

// unclosed is a writer that the transport may not close.
type unclosed struct{ io.Writer }

// Close leaves the writer open.
func (unclosed) Close() error { return nil }

// addTools adds all tools to a server.
func addTools(server *mcp.Server, a *api) {
	open, destroys := true, false
	verifies := &mcp.ToolAnnotations{DestructiveHint: &destroys, OpenWorldHint: &open}
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true}
	add(server, a.verify, &mcp.Tool{Name: "verify", Annotations: verifies,
		Description: "Verify one e-mail address: status, reason, score and facts."})
	add(server, a.verifyBatch, &mcp.Tool{Name: "verify_batch", Annotations: verifies,
		Description: "Verify up to 1,000 e-mail addresses; the results are in their order."})
	add(server, a.explain, &mcp.Tool{Name: "explain", Annotations: verifies,
		Description: "Verify one e-mail address and explain the verdict: what its reason means, the mail server's " +
			"reply, the reply that controls it, and the rule that decided."})
	add(server, a.jobStatus, &mcp.Tool{Name: "job_status", Annotations: reads,
		Description: "The state of a job: progress, counts by status and reason, time left, credits."})
	add(server, a.jobWhy, &mcp.Tool{Name: "job_why", Annotations: reads,
		Description: "What a running job waits for, by receiver: when each can be probed again, and when it is " +
			"expected to be done."})
}

// add adds a tool whose calls do answers.
func add[In any](server *mcp.Server, do func(context.Context, In) (any, error), tool *mcp.Tool) {
	mcp.AddTool(server, tool,
		func(ctx context.Context, _ *mcp.CallToolRequest, input In) (*mcp.CallToolResult, any, error) {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			answer, err := do(ctx, input)
			return nil, answer, err
		})
}

// options are what a request may say about a verification. The server checks them, and has defaults for what is
// missing.
type options struct {
	CheckSMTP *bool `json:"check_smtp,omitempty" jsonschema:"false: connect to no mail server; default true"`
	Timeout   *int  `json:"timeout,omitempty" jsonschema:"seconds until an address without an answer is UNKNOWN"`
	MaxAge    *int  `json:"max_age,omitempty" jsonschema:"seconds: the oldest known answer that will do; 0: a fresh one"`
	Details   *bool `json:"details,omitempty" jsonschema:"true: with the replies and the rule behind the verdict"`
}

// verifyInput is the input of verify, and the body of the call.
type verifyInput struct {
	Email string `json:"email" jsonschema:"the address"`
	options
}

// batchInput is the input of verify_batch, and the body of the call.
type batchInput struct {
	Emails []string `json:"emails" jsonschema:"1 to 1,000 addresses"`
	options
}

// explainInput is the input of explain.
type explainInput struct {
	Email string `json:"email" jsonschema:"the address"`
}

// jobInput names a job.
type jobInput struct {
	JobID string `json:"job_id" jsonschema:"the job_id that the upload answered"`
}

// api calls the API for the tools.
type api struct{ client *apiclient.Client }

// verify verifies an address.
func (a *api) verify(ctx context.Context, in verifyInput) (any, error) {
	return a.client.CallJSON(ctx, http.MethodPost, "/v1/verify/single", in)
}

// verifyBatch verifies some addresses.
func (a *api) verifyBatch(ctx context.Context, in batchInput) (any, error) {
	return a.client.CallJSON(ctx, http.MethodPost, "/v1/verify/batch", in)
}

// reason is an entry of GET /v1/reasons.
type reason struct {
	Reason  string `json:"reason"` // "" for null
	Status  string `json:"status"`
	Meaning string `json:"meaning"`
}

// explanation is the answer of explain.
type explanation struct {
	Meaning      string          `json:"meaning"` // of the reason; empty if the server does not say it
	Verification json.RawMessage `json:"verification"`
}

// explain verifies an address, and looks its reason up in the server's list.
func (a *api) explain(ctx context.Context, in explainInput) (any, error) {
	details := true
	verification, err := a.client.CallJSON(ctx, http.MethodPost, "/v1/verify/single",
		verifyInput{Email: in.Email, options: options{Details: &details}})
	if err != nil {
		return nil, err
	}
	known, err := a.client.CallJSON(ctx, http.MethodGet, "/v1/reasons", nil)
	if err != nil {
		return nil, err
	}
	var verdict reason
	var list struct{ Reasons []reason }
	if err := errors.Join(json.Unmarshal(verification, &verdict), json.Unmarshal(known, &list)); err != nil {
		return nil, fmt.Errorf("the answer of %s: %w", a.client.Base, err)
	}
	out := explanation{Verification: verification}
	for _, r := range list.Reasons {
		if r.Status == verdict.Status && r.Reason == verdict.Reason {
			out.Meaning = r.Meaning
		}
	}
	return out, nil
}

// jobStatus reads the record of a job.
func (a *api) jobStatus(ctx context.Context, in jobInput) (any, error) { return a.job(ctx, in, "") }

// jobWhy reads what a job waits for.
func (a *api) jobWhy(ctx context.Context, in jobInput) (any, error) { return a.job(ctx, in, "/why") }

// job reads something about a job.
func (a *api) job(ctx context.Context, in jobInput, what string) (any, error) {
	client := *a.client
	client.Advice = "" // a 404 is about the job
	return client.CallJSON(ctx, http.MethodGet, "/v1/verify/bulk/"+url.PathEscape(in.JobID)+what, nil)
}
