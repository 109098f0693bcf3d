package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseReply(t *testing.T) {
	for raw, want := range map[string]Reply{
		"250 2.1.5 OK":                 {Code: 250, Enhanced: Enhanced{2, 1, 5}, Lines: []string{"2.1.5 OK"}},
		"550":                          {Code: 550, Lines: []string{""}},
		"550 5.1.1 a\r\n":              {Code: 550, Enhanced: Enhanced{5, 1, 1}, Lines: []string{"5.1.1 a"}},
		"550-5.1.1 a\r\n550 5.1.1 b":   {Code: 550, Enhanced: Enhanced{5, 1, 1}, Lines: []string{"5.1.1 a", "5.1.1 b"}},
		"550-a\nb without code\n550 c": {Code: 550, Lines: []string{"a", "b without code", "c"}},
		"550-unfinished":               {Code: 550, Lines: []string{"unfinished"}},
		"550 sorry (#5.1.1)":           {Code: 550, Enhanced: Enhanced{5, 1, 1}, Lines: []string{"sorry (#5.1.1)"}},
		"550 #5.1.0 Address rejected": {Code: 550, Enhanced: Enhanced{5, 1, 0},
			Lines: []string{"#5.1.0 Address rejected"}},
		"550 said: 550 5.2.1 no": {Code: 550, Enhanced: Enhanced{5, 2, 1}, Lines: []string{"said: 550 5.2.1 no"}},
		"550 4.1.1 wrong class":  {Code: 550, Lines: []string{"4.1.1 wrong class"}},
		"550 7.7.1 no class":     {Code: 550, Lines: []string{"7.7.1 no class"}},
		"550 5.1.1.1 address":    {Code: 550, Lines: []string{"5.1.1.1 address"}},
		"550 MTA version 5.1.1":  {Code: 550, Lines: []string{"MTA version 5.1.1"}},
		"550 blocked 192.5.1.1":  {Code: 550, Lines: []string{"blocked 192.5.1.1"}},
		"550 5.1.12345 long":     {Code: 550, Lines: []string{"5.1.12345 long"}},
		"550-a\n421 b":           {Code: 421, Lines: []string{"a", "b"}},
		"220-wait\n521 5.7.1 go": {Code: 521, Enhanced: Enhanced{5, 7, 1}, Lines: []string{"wait", "5.7.1 go"}},
		"550-a\n250 b":           {Code: 550, Lines: []string{"a", "250 b"}}, // never an acceptance
		"550-a\n250-b\n550 c":    {Code: 550, Lines: []string{"a", "250-b", "c"}},
		"550-a\n 421 b\n550 c":   {Code: 550, Lines: []string{"a", " 421 b", "c"}}, // an indented number is text
		"550-a\n 550 b":          {Code: 550, Lines: []string{"a", "b"}},
		"550No such user":        {Code: 550, Lines: []string{"No such user"}},
		"550: no":                {Code: 550, Lines: []string{": no"}},
		" \t550 a \t\r\n":        {Code: 550, Lines: []string{"a"}},
		"550-\r\n550 \r\n":       {Code: 550, Lines: []string{"", ""}},
		"\r\n550 a\r\n\r\n":      {Code: 550, Lines: []string{"a"}},
	} {
		want.Stage = StageRcpt
		got, err := ParseReply(StageRcpt, raw)
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
	for _, raw := range []string{"", "\n", "hello", "no\n550 a", "55 x", "150 x", "650 x", "5505 x",
		strings.Repeat("550-x\n", 20_000)} {
		_, err := ParseReply(StageRcpt, raw)
		require.Error(t, err, raw[:min(len(raw), 20)])
	}
}

func TestParseReplyBounds(t *testing.T) {
	r, err := ParseReply(StageRcpt, strings.Repeat("550-x\n", 500)+"550 "+strings.Repeat("y", 5000))
	require.NoError(t, err)
	require.Len(t, r.Lines, maxReplyLines)
	require.Equal(t, strings.Repeat("y", maxReplyLine), r.Lines[maxReplyLines-1], "the last line is kept")
}

// FuzzParseReply: any reply is classified without a panic, within the bounds, and by the invariants.
func FuzzParseReply(f *testing.F) {
	table := DefaultTable()
	f.Add(uint8(StageRcpt), "550-5.1.1 User unknown\r\n550 5.1.1 see http://x", "p@x.example")
	f.Add(uint8(StageMail), "421 4.7.0 Too many errors", "")
	f.Add(uint8(StageRcpt), "550 邮箱不存在 \xff\xfe p@x.example", "p@x.example")
	f.Fuzz(func(t *testing.T, stage uint8, raw, from string) {
		r, err := ParseReply(Stage(stage%uint8(len(stageNames))), raw)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(r.Lines), maxReplyLines)
		for _, p := range []*Provider{nil, table.Providers[len(raw)%len(table.Providers)]} {
			holdsInvariants(t, r, table.Classify(p, r, SenderIdentity{MailFrom: from}))
		}
	})
}

// holdsInvariants checks what holds for every reply.
func holdsInvariants(t *testing.T, r Reply, f Finding) {
	t.Helper()
	if condemns(f.Meaning) {
		require.Equal(t, StageRcpt, r.Stage, "only RCPT speaks of a mailbox")
		require.True(t, f.Meaning == MailboxFull || r.Permanent(), "a temporary reply condemns nobody")
	}
	require.Equal(t, condemns(f.Meaning), f.Blame == BlameRecipient && f.Meaning != RateLimited)
	require.NotEmpty(t, f.Rule)
	if f.Meaning == Accepted {
		require.True(t, r.Positive() && r.Stage == StageRcpt)
	}
	if r.Code == 421 {
		require.GreaterOrEqual(t, f.Action.Kind, ActionClose)
	}
}
