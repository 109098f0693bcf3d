package httpd

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The names of parts and members that tests take for known ones.
var (
	knownParts   = []string{"callback_url", "name", "email_column", "has_header", "max_age", "max_hours", "callback_content", "callback_input"}
	knownMembers = []string{"email", "check_smtp", "timeout", "max_age", "details"}
)

func TestUnknownFieldSuggestsKnownName(t *testing.T) {
	for name, meant := range map[string]string{"callbackurl": "callback_url", "callback-url": "callback_url", "CallbackUrl": "callback_url", "calback_ulr": "callback_url",
		"hasheader": "has_header", "max_hour": "max_hours", "names": "name", "email-column": "email_column", "Email Column": "email_column"} {
		require.ErrorContains(t, checkUnknownField(name, knownParts), "did you mean "+meant+"?", name)
	}
	for _, name := range append([]string{"", "file", "submit", "csrf_token", "source", "callback", "url", "header", "max", "notify_url",
		"\u0130\u0130\u0130\u0130\u0130\u0130\u0130\u0130\u0130\u0130\u0130\u0130\u0130\u0130\u0130\u0130", "a name that is much longer than any of those that are known here"}, knownParts...) {
		require.NoError(t, checkUnknownField(name, knownParts), name)
	}
	for name, meant := range map[string]string{"Email": "email", "mail": "email", "e-mail": "email", "emial": "email", "check_smpt": "check_smtp", "checkSMTP": "check_smtp", "detail": "details", "time_out": "timeout", "maxAge": "max_age"} {
		require.ErrorContains(t, checkUnknownField(name, knownMembers), "did you mean "+meant+"?", name)
	}
	for _, name := range append([]string{"id", "to", "tag", "smtp", "age", "locale"}, knownMembers...) {
		require.NoError(t, checkUnknownField(name, knownMembers), name)
	}
}
