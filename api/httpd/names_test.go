package httpd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names of parts and members that tests take for known ones.
var (
	knownParts = []string{"callback_url", "name", "email_column", "has_header", "max_age", "max_hours",
		"callback_content", "callback_input"}
	knownMembers = []string{"email", "check_smtp", "timeout", "max_age", "details"}
)

func TestUnknownNameIsRefusedWithTheNearest(t *testing.T) {
	for name, meant := range map[string]string{"callbackurl": "callback_url", "callback-url": "callback_url",
		"CallbackUrl": "callback_url", "calback_ulr": "callback_url",
		"hasheader": "has_header", "max_hour": "max_hours", "names": "name", "email-column": "email_column",
		"Email Column": "email_column", "callback": "callback_url",
		"header": "has_header", "notify_url": "callback_url", "webhook_url": "callback_url"} {
		require.ErrorContains(t, checkName(name, knownParts), "did you mean "+meant+"? Known are callback_url, name, ",
			name)
	}
	for _, name := range []string{"", "submit", "csrf_token", "check_smtp", "start", strings.Repeat("\u0130", 16),
		strings.Repeat("x", 100), "\xff\x00"} {
		require.ErrorContains(t, checkName(name, knownParts), "is not known: did you mean", name)
	}
	for _, name := range knownParts {
		require.NoError(t, checkName(name, knownParts), name)
	}
	for name, meant := range map[string]string{"Email": "email", "mail": "email", "e-mail": "email", "emial": "email",
		"check_smpt": "check_smtp", "checkSMTP": "check_smtp", "detail": "details", "time_out": "timeout",
		"maxAge": "max_age"} {
		require.ErrorContains(t, checkName(name, knownMembers), "did you mean "+meant+"?", name)
	}
	require.ErrorContains(t, checkName("wait", nil), `"wait" is not known: send this request without it`)
}
