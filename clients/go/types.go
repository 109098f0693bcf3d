package client

import "time"

// Options are what a request may say of a verification. A zero value is the server's default.
type Options struct {
	CheckSMTP *bool `json:"check_smtp,omitempty"` // false: no mail server is contacted
	Timeout   int   `json:"timeout,omitempty"`    // seconds
	MaxAge    *int  `json:"max_age,omitempty"`    // of a cached answer, in seconds; 0: none is taken
	Details   bool  `json:"details,omitempty"`
}

// The statuses.
const (
	Valid   = "VALID"
	Risky   = "RISKY"
	Invalid = "INVALID"
	Unknown = "UNKNOWN"
)

// Result is the verdict on an address. Decide by Status; Score ranks equal ones.
type Result struct {
	Email        string     `json:"email"`
	Status       string     `json:"status"` // empty of a blank row
	Score        int        `json:"score"`
	Reason       string     `json:"reason"` // empty if it is valid
	SyntaxValid  bool       `json:"syntax_valid"`
	DomainExists bool       `json:"domain_exists"`
	SMTPValid    bool       `json:"smtp_valid"`
	IsDisposable bool       `json:"is_disposable"`
	IsRoleBased  bool       `json:"is_role_based"`
	IsFreeEmail  bool       `json:"is_free_email"`
	SMTPProvider string     `json:"smtp_provider"`
	MXRecords    []string   `json:"mx_records"`
	FromCache    bool       `json:"from_cache"`
	CreditsUsed  int        `json:"credits_used"`
	VerifiedAt   *time.Time `json:"verified_at"` // nil of a blank row
	Details      *Details   `json:"details"`     // nil unless the request wanted them
}

// Details are the evidence of a verdict: the reply that decided, and its control. The description of the API has more.
type Details struct {
	NormalizedEmail string   `json:"normalized_email"`
	DidYouMean      string   `json:"did_you_mean"`
	Reply                    // that decided
	Stage           string   `json:"stage"`
	Rule            string   `json:"rule"`
	Control         *Control `json:"control"` // nil if the verdict rests on no other reply
	IsCatchAll      *bool    `json:"is_catch_all"`
	RetryAfter      *int     `json:"retry_after"` // seconds
	Probability     *float64 `json:"probability"` // that it takes mail; nil below 200 reported outcomes
}

// Reply is what a mail server said.
type Reply struct {
	MXHost       string `json:"mx_host"`
	SMTPCode     int    `json:"smtp_code"`
	EnhancedCode string `json:"enhanced_code"`
	SMTPMessage  string `json:"smtp_message"`
}

// Control is the other half of the proof: the reply to another recipient.
type Control struct {
	Kind string `json:"kind"`
	Reply
	Meaning string     `json:"meaning"`
	At      *time.Time `json:"at"`
}

// Row is a row of a list with its verdict.
type Row struct {
	Row int64 `json:"row"` // from 1
	Result
	Input map[string]string `json:"input"` // the other columns
}

// Job is the record of a list that is verified.
type Job struct {
	ID              string           `json:"job_id"`
	Name            string           `json:"name"`
	Status          string           `json:"status"`
	TotalRows       int64            `json:"total_rows"`
	UniqueAddresses int64            `json:"unique_addresses"`
	Processed       int64            `json:"processed"`
	Percent         float64          `json:"percent"`
	ETASeconds      *int64           `json:"eta_seconds"` // nil: not known
	Counts          map[string]int64 `json:"counts"`      // by status
	Reasons         map[string]int64 `json:"reasons"`
	CreditsUsed     int64            `json:"credits_used"`
	CreditsNeeded   int64            `json:"credits_needed"` // of a job that is ready
	ResultsURL      string           `json:"results_url"`
	ExpiresAt       *time.Time       `json:"expires_at"`
	Error           string           `json:"error"`
}

// Ended reports whether the job is over.
func (j *Job) Ended() bool {
	switch j.Status {
	case "completed", "cancelled", "failed", "expired":
		return true
	}
	return false
}
