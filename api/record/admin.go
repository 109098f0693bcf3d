package record

import (
	"net/netip"

	"probity/store"
)

// User is an account as admins see it.
type User struct {
	ID       string       `json:"id"`
	Email    string       `json:"email"`
	Role     store.Role   `json:"role"`
	Disabled bool         `json:"disabled"`
	Created  Time         `json:"created_at"`
	Limits   store.Limits `json:"limits"`
	TOTP     bool         `json:"totp"`
	Password string       `json:"password,omitempty"`
}

// Key is an API key without its secret, which is set once, when the key is made.
type Key struct {
	ID       string `json:"id"`
	User     string `json:"user"`
	Name     string `json:"name"`
	Test     bool   `json:"test"`
	Last4    string `json:"last4"`
	Created  Time   `json:"created_at"`
	LastUsed *Time  `json:"last_used_at"`

	Scopes   store.Scopes   `json:"scopes"`
	Expires  *Time          `json:"expires_at"`
	Networks []netip.Prefix `json:"networks"`

	Secret string `json:"key,omitempty"`
}

// Suppression is a target that is never probed.
type Suppression struct {
	Kind  store.SuppressionKind `json:"kind"`
	Name  string                `json:"name"`
	Note  string                `json:"note"`
	By    string                `json:"by"`
	Since Time                  `json:"since"`
}

// AuditEvent is a line of the audit log.
type AuditEvent struct {
	At     Time   `json:"at"`
	By     string `json:"by"` // e-mail address of an existing account, else as it was recorded
	From   string `json:"from"`
	Action string `json:"action"`
	Target string `json:"target"`
	About  string `json:"about"` // e-mail address of the account that the event is about, or that owns the key
	Note   string `json:"note"`
}
