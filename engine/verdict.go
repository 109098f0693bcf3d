package engine

import (
	"time"

	"probity/engine/basis"
)

// Status is the bucket of a verdict. The zero value is UNKNOWN.
type Status uint8

// The four statuses of the API.
const (
	Unknown Status = iota
	Valid
	Risky
	Invalid
)

var statusNames = [...]string{"UNKNOWN", "VALID", "RISKY", "INVALID"}

func (s Status) String() string { return nameOf(statusNames[:], uint8(s)) }

// Reason explains a verdict. The zero value is "no reason", which only VALID has.
type Reason uint8

// The reasons. The numbers are on disk: add at the end only.
const (
	ReasonNone Reason = iota
	ReasonDisposable
	ReasonAcceptAllProvider
	ReasonCatchAll
	ReasonAcceptedUnconfirmed
	ReasonMailboxFull
	ReasonRoleAccount
	ReasonPossibleTypo
	ReasonLowQuality
	ReasonInvalidSyntax
	ReasonDomainNotFound
	ReasonNullMX
	ReasonProviderSyntax
	ReasonNoMailServer
	ReasonMailboxNotFound
	ReasonUnroutableMX
	ReasonMailboxDisabled
	ReasonGreylisted
	ReasonSMTPNotChecked
	ReasonCancelled
	ReasonRateLimited
	ReasonTimeout
	ReasonBlocked
	ReasonTemporaryError
	ReasonSMTPUTF8Unsupported
	ReasonConnectionFailed
	ReasonDNSError
	ReasonProtocolError
	ReasonInternalError
	ReasonUnclearRefusal
	ReasonRelayDenied
)

// Reasons is how many reasons there are, that of VALID included.
const Reasons = int(ReasonRelayDenied) + 1

var reasonNames = [...]string{"", "disposable", "accept_all_provider", "catch_all", "accepted_unconfirmed",
	"mailbox_full", "role_account",
	"possible_typo", "low_quality", "invalid_syntax", "domain_not_found", "null_mx", "provider_syntax",
	"no_mail_server", "mailbox_not_found",
	"unroutable_mx", "mailbox_disabled", "greylisted", "smtp_not_checked", "cancelled", "rate_limited", "timeout",
	"blocked", "temporary_error",
	"smtputf8_unsupported", "connection_failed", "dns_error", "protocol_error", "internal_error", "unclear_refusal",
	"relay_denied"}

// String is the reason as the API shows it; empty for ReasonNone.
func (r Reason) String() string { return nameOf(reasonNames[:], uint8(r)) }

// Tri is yes, no or not known, which is its zero value.
type Tri uint8

// The three values.
const (
	NotKnown Tri = iota
	Yes
	No
)

// Verdict is the answer about one address. The zero value is UNKNOWN without evidence.
type Verdict struct {
	Status       Status
	Reason       Reason
	Score        uint8 // 0 to 100, at the time when the verdict was made or last shown: see Score
	SMTPValid    bool  // accepted at RCPT by an MX host that refuses unknown recipients
	FromCache    bool
	Flags        Flags
	Basis        basis.Basis // what the score depends on
	ProviderID   string      // "" if not known
	ProviderName string      // smtp_provider: a provider's name, "other", or ""
	Rule         string      // id of the rule that decided
	VerifiedAt   time.Time   // when the evidence was taken
	MX           []string
	Details      Details
}

// Details are added to the verdict for a caller that requests them.
type Details struct {
	CatchAll  Tri
	Full      bool
	Disabled  bool
	Host      string // MX host whose reply decided
	Code      int
	Enhanced  Enhanced
	Message   string // one line, at most 200 characters, recipients replaced by "<address>"
	Stage     Stage
	Attempts  int
	NextRetry time.Time // zero if none is planned
	// Source is the egress source that was answered. Message and Source, and what they say of the witness, are for
	// callers who asked for details.
	Source  string
	Witness *Witness // nil if the answer stands alone, or no reply decided
}

// SyntaxValid follows from the reason, as DomainExists does: no later stage can change it.
func (v *Verdict) SyntaxValid() bool { return v.Reason != ReasonInvalidSyntax }

// DomainExists is false only for NXDOMAIN and bad syntax. Of an address that was not looked up a cached NXDOMAIN
// counts.
func (v *Verdict) DomainExists() bool {
	return v.Reason != ReasonInvalidSyntax && v.Reason != ReasonDomainNotFound && !v.Flags.Has(FlagNoDomain)
}
