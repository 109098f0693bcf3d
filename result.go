package probity

import "time"

// Status is what is known of an address.
type Status string

// The statuses.
const (
	Valid   Status = "VALID"   // accepted, and the same mail host refused a made-up recipient of the domain
	Risky   Status = "RISKY"   // mail may arrive: Reason says what is uncertain
	Invalid Status = "INVALID" // there is no such address, domain or mail server
	Unknown Status = "UNKNOWN" // could not be determined
)

// Reason is why an address is not VALID, such as "mailbox_not_found"; docs/api.md lists all. It is empty for VALID.
type Reason string

// Result is the verdict on an address. Its JSON has the keys of the API.
type Result struct {
	Email        string    `json:"email"` // as it was given
	Status       Status    `json:"status"`
	Score        int       `json:"score"` // 0 to 100, see docs/score.md
	Reason       Reason    `json:"reason,omitempty"`
	SyntaxValid  bool      `json:"syntax_valid"`
	DomainExists bool      `json:"domain_exists"` // false only where DNS or syntax says so
	SMTPValid    bool      `json:"smtp_valid"`    // accepted by a mail host that refuses unknown recipients
	Disposable   bool      `json:"is_disposable"`
	RoleBased    bool      `json:"is_role_based"`
	Free         bool      `json:"is_free_email"`
	Provider     string    `json:"smtp_provider"` // such as "Google", "other", or empty
	MX           []string  `json:"mx_records"`
	FromCache    bool      `json:"from_cache"`
	VerifiedAt   time.Time `json:"verified_at"` // when the evidence was taken

	Normalized string `json:"normalized,omitempty"`   // the address as it is compared with others; empty for bad syntax
	DidYouMean string `json:"did_you_mean,omitempty"` // the address that was probably meant
	Rule       string `json:"rule"`                   // the rule that decided
	Host       string `json:"mx_host,omitempty"`      // the mail host whose reply decided
	Code       int    `json:"smtp_code,omitempty"`    // of that reply
	Message    string `json:"smtp_message,omitempty"` // of that reply, without the address
}
