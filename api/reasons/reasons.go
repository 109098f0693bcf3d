package reasons

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"probity/engine"
	"probity/internal/jsontext"
	"probity/store"
)

// meanings explains each reason in one line.
var meanings = map[engine.Reason]string{
	engine.ReasonNone:                "The server accepts this mailbox and rejects invalid ones.",
	engine.ReasonDisposable:          "Disposable e-mail domain.",
	engine.ReasonAcceptAllProvider:   "The provider accepts every address, so the mailbox cannot be confirmed.",
	engine.ReasonCatchAll:            "Catch-all domain: it accepts any address.",
	engine.ReasonAcceptedUnconfirmed: "Accepted, but we could not confirm that the server rejects invalid addresses.",
	engine.ReasonMailboxFull:         "The mailbox exists and is over its quota.",
	engine.ReasonRoleAccount:         "Role address such as info@ or sales@.",
	engine.ReasonPossibleTypo:        "The domain looks like a typo of a major provider.",
	engine.ReasonLowQuality:          "The domain's mail goes to a parking service.",
	engine.ReasonInvalidSyntax:       "This is not an e-mail address.",
	engine.ReasonDomainNotFound:      "The domain does not exist.",
	engine.ReasonNullMX:              "The domain does not accept mail (null MX).",
	engine.ReasonProviderSyntax:      "This provider does not allow such addresses.",
	engine.ReasonNoMailServer:        "The domain has neither a mail server nor an address.",
	engine.ReasonMailboxNotFound:     "The server says that the mailbox does not exist.",
	engine.ReasonUnroutableMX:        "The domain's mail servers have no address that mail could be sent to.",
	engine.ReasonMailboxDisabled:     "The mailbox is disabled.",
	engine.ReasonGreylisted:          "The server asks to come back later; it will be asked again.",
	engine.ReasonSMTPNotChecked:      "The mail server was not contacted.",
	engine.ReasonCancelled:           "The job was cancelled before this address was finished.",
	engine.ReasonRateLimited:         "The server is rate limiting us.",
	engine.ReasonTimeout:             "No answer came in time; a later call may find it.",
	engine.ReasonBlocked:             "The server blocked us; the mailbox may be fine.",
	engine.ReasonTemporaryError:      "The server has a temporary problem.",
	engine.ReasonSMTPUTF8Unsupported: "The address needs an extension that the mail server does not offer.",
	engine.ReasonConnectionFailed:    "The mail server could not be reached.",
	engine.ReasonDNSError:            "The domain's name servers did not answer.",
	engine.ReasonProtocolError:       "The server's reply was inconclusive.",
	engine.ReasonInternalError:       "Something failed on our side.",
	engine.ReasonUnclearRefusal:      "The server refuses the address in words that do not say why.",
	engine.ReasonRelayDenied:         "The server does not take mail for this domain, or not from us.",
}

// All are the reasons in the order of their numbers.
func All() []engine.Reason { return slices.Sorted(maps.Keys(meanings)) }

// Select returns the reasons that have one of the statuses and one of the names, each of all if none are given.
func Select(statuses, names []string) (selected []engine.Reason, err error) {
	for _, name := range statuses {
		if !slices.ContainsFunc(All(), func(r engine.Reason) bool { return r.Bucket().String() == name }) {
			return nil, fmt.Errorf("status has %q: name some of VALID, RISKY, INVALID and UNKNOWN", name)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(All(), func(r engine.Reason) bool {
			return r != engine.ReasonNone &&
				r.String() == name
		}) {
			return nil, fmt.Errorf("reason has %q: name some of those that GET /v1/reasons lists", name)
		}
	}
	for _, r := range All() {
		byStatus := len(statuses) == 0 || slices.Contains(statuses, r.Bucket().String())
		if byStatus && (len(names) == 0 || slices.Contains(names, r.String())) {
			selected = append(selected, r)
		}
	}
	return selected, nil
}

// Rows counts the rows of a finished job that have one of the reasons.
func Rows(j *store.Job, of []engine.Reason) (n int64) {
	for _, r := range of {
		if r == engine.ReasonNone {
			n += j.Counts[engine.Valid.String()]
		} else {
			n += j.Reasons[r.String()]
		}
	}
	return n
}

// JSON is the body of GET /v1/reasons.
func JSON() []byte {
	b := []byte(`{"reasons":[`)
	for i, r := range All() {
		if i > 0 {
			b = append(b, ',')
		}
		band := r.Band()
		b = jsontext.AppendStringOrNull(append(b, `{"reason":`...), r.String())
		b = jsontext.AppendString(append(b, `,"status":`...), r.Bucket().String())
		b = strconv.AppendUint(append(b, `,"score":`...), uint64(r.Figure()), 10)
		b = strconv.AppendUint(append(b, `,"score_min":`...), uint64(band.Low), 10)
		b = strconv.AppendUint(append(b, `,"score_max":`...), uint64(band.High), 10)
		b = append(jsontext.AppendString(append(b, `,"meaning":`...), meanings[r]), '}')
	}
	return append(b, `]}`...)
}
