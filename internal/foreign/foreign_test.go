package foreign

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const ours = `email,note,verify_status,verify_score,verify_reason,verify_smtp_provider,verify_smtp_code,verify_smtp_message,verify_mx_host
Ann@example.org,x,VALID,98,,gmail,250,2.1.5 Ok,mx1.example.org
bo@example.org,x,INVALID,3,mailbox_not_found,gmail,550,5.1.1 unknown,mx1.example.org
,x,,,,,,,
cy@example.org,x,UNKNOWN,40,blocked,outlook,,,
BO@example.org,x,INVALID,3,mailbox_not_found,gmail,550,5.1.1 unknown,mx1.example.org
dee@example.org,x,VALID,98,,outlook,250,Ok,mx2.example.org
`

func TestDisagreementsAreFoundByReceiver(t *testing.T) {
	words := Words{Statuses, map[string]string{"deliverable": "VALID", "undeliverable": "INVALID", "risky": "RISKY"}}
	theirs, err := ReadStatuses(strings.NewReader("\xef\xbb\xbfResult;E-mail\nDeliverable;ann@EXAMPLE.org\ndeliverable;bo@example.org\n"+
		"unknown;cy@example.org\nundeliverable;eve@example.org\n;\n"), "e-mail", "result", words, 0)
	require.NoError(t, err)
	c, err := Compare(strings.NewReader(ours), "email", theirs, 3)
	require.NoError(t, err)
	require.Equal(t, []int{3, 2, 1, 1}, []int{c.Both, c.Agree, c.OnlyOurs, c.OnlyTheirs})
	require.Equal(t, Receiver{"gmail", 2, 1, []Disagreement{{"INVALID", "VALID", 1,
		[]Evidence{{Email: "bo@example.org", Reason: "mailbox_not_found", Score: "3",
			Code: "550", Message: "5.1.1 unknown", Host: "mx1.example.org"}}}}}, c.Receivers[0])
	require.Equal(t, "outlook", c.Receivers[1].Receiver)
	none, err := Compare(strings.NewReader(ours), "email", theirs, 0)
	require.NoError(t, err)
	require.Empty(t, none.Receivers[0].Disagreements[0].Examples)
}

func TestFilesThatCannotBeRead(t *testing.T) {
	words := Words{Statuses, nil}
	for text, want := range map[string]string{
		"":                             "empty",
		"email,state\na@b.test,ok\n":   `no column "status" among ["email" "state"]`,
		"email,status\na@b.test,ok\n":  `line 2: "ok" is not one of VALID, RISKY, INVALID, UNKNOWN`,
		"email,status\na@b.test,VALID": "",
	} {
		_, err := ReadStatuses(strings.NewReader(text), "email", "status", words, 0)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	_, err := ReadStatuses(strings.NewReader("email,status\na@b.test,VALID\nA@b.test,VALID\nc@b.test,VALID\n"), "email",
		"status", words, 1)
	require.ErrorIs(t, err, ErrTooMany)
	_, err = Compare(strings.NewReader("email,status\n"), "email", nil, 1)
	require.ErrorContains(t, err, "verify_status")
}

// FuzzCompare: no file makes it panic, and each address of both is counted once.
func FuzzCompare(f *testing.F) {
	f.Add(ours, "email,status\nann@example.org,valid\n")
	f.Add("email;verify_status;verify_smtp_provider;verify_reason;verify_score\n\"a", "email|status\n\"")
	f.Fuzz(func(t *testing.T, first, second string) {
		theirs, err := ReadStatuses(strings.NewReader(second), "email", "status", Words{Statuses, nil}, 0)
		if err != nil {
			return
		}
		c, err := Compare(strings.NewReader(first), "email", theirs, 2)
		if err != nil {
			return
		}
		require.Equal(t, len(theirs), c.Both+c.OnlyTheirs)
		sum := 0
		for _, r := range c.Receivers {
			sum += r.Both
		}
		require.Equal(t, c.Both, sum)
	})
}
