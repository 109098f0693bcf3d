package outcome

import (
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

func TestRulesReadBounces(t *testing.T) {
	table := engine.DefaultTable()
	for _, c := range []struct {
		report, text, hint string
		want               Kind
	}{
		{"delivered", "", "", Delivered},
		{"complained", "", "", Complained},
		{"bounced_hard", "", "", Bounced},
		{"bounced_soft", "", "", Unclear},
		{"bounced_hard", "smtp; 550 5.1.1 <ann@example.org>: Recipient address rejected: User unknown", "example.org",
			Bounced},
		{"bounced_hard", "550 5.7.1 Message rejected due to content restrictions", "example.org", Unclear},
		{"bounced_hard", "5.2.2 mailbox full", "example.org", Unclear},
		{"bounced_soft", "452 4.2.2 The mailbox is over quota", "example.org", Unclear},
		{"bounced_soft", "550 5.1.1 User unknown", "example.org", Bounced},
		{"bounced_soft", "451 4.1.1 User unknown", "example.org", Unclear},
		{"bounced_hard", "User unknown", "example.org", Bounced},
		{"bounced_hard", "Hard bounce (see the log)", "example.org", Bounced},
	} {
		got, ok := Conclude(table, c.report, c.text, c.hint)
		require.True(t, ok)
		require.Equal(t, c.want, got, "%s %q", c.report, c.text)
	}
	_, ok := Conclude(table, "opened", "", "")
	require.False(t, ok)
}

// FuzzConclude: no text makes it panic, and a text never turns what was delivered.
func FuzzConclude(f *testing.F) {
	table := engine.DefaultTable()
	f.Add("bounced_hard", "smtp; 550-5.1.1 gone\r\n550 5.1.1 gone", "gmail.com")
	f.Add("bounced_soft", "451 \xff", "")
	f.Fuzz(func(t *testing.T, report, text, hint string) {
		kind, ok := Conclude(table, report, text, hint)
		require.Less(t, kind, Kind(Kinds))
		if report == "delivered" {
			require.True(t, ok)
			require.Equal(t, Delivered, kind)
		}
	})
}
