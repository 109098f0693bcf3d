package replyline

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCallout(t *testing.T) {
	for _, c := range []struct {
		lines  []string
		code   int
		quoted []string
	}{
		{[]string{"Callout verification failed:", "550-no such", "550 user"}, 550, []string{"", "no such", "user"}},
		{[]string{"callout verification failed: 451 busy"}, 451, []string{"busy"}},
		{[]string{"Callout verification failed"}, 0, []string{""}},
		{[]string{"Sender callout verification failed: 550 no"}, 0, nil},
		{nil, 0, nil},
	} {
		code, quoted := Callout(c.lines)
		require.Equal(t, c.code, code)
		require.Equal(t, c.quoted, quoted)
	}
}

// FuzzCallout: the text of a quoted reply is never longer than the reply.
func FuzzCallout(f *testing.F) {
	f.Add("Callout verification failed:", "550 550 no such user")
	f.Fuzz(func(t *testing.T, a, b string) {
		code, quoted := Callout([]string{a, b})
		n := 0
		for _, line := range quoted {
			n += len(line)
		}
		require.LessOrEqual(t, n, len(a)+len(b))
		require.True(t, code == 0 || code >= 400 && code <= 599)
	})
}
