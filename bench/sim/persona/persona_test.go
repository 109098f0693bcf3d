package persona

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestPersonasHaveNamesOfTheirOwn(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for _, p := range slices.Concat(All(), Throttlers(), Hostile()) {
		if seen[p.Name] || !kebab.MatchString(p.Name) {
			t.Errorf("name %q is taken or no kebab-case", p.Name)
		}
		seen[p.Name] = true
	}
}

func TestPersonasCoverTheProviders(t *testing.T) {
	want := strings.Fields("google microsoft365 outlook yahoo icloud mimecast proofpoint barracuda cisco gmx qq netease zoho mailru orange laposte tonline godaddy docomo comcast")
	have := map[string]bool{}
	for _, p := range All() {
		have[p.Provider] = true
	}
	for _, id := range want {
		if !have[id] {
			t.Errorf("no persona of %s", id)
		}
	}
}

func TestPersonasExpectSomethingOfEveryMailbox(t *testing.T) {
	statuses := map[string]bool{"VALID": true, "RISKY": true, "INVALID": true, "UNKNOWN": true}
	for _, p := range slices.Concat(All(), Throttlers(), Hostile()) {
		for m := range MailboxStates {
			outcomes := p.Expect(m)
			if len(outcomes) == 0 {
				t.Errorf("%s expects nothing of mailbox state %d", p.Name, m)
			}
			for _, o := range outcomes {
				if !statuses[o.Status] || (o.Status == "VALID") != (o.Reason == "") {
					t.Errorf("%s: no such outcome: %+v", p.Name, o)
				}
			}
		}
	}
}

// A reply is one or more lines of one code, all but the last with a hyphen
// (RFC 5321 section 4.2.1).
func TestTextsAreReplies(t *testing.T) {
	for _, p := range slices.Concat(All(), Throttlers(), Hostile()) {
		for s := range replyKinds {
			if s == ReplyEhlo {
				continue
			}
			text := string(p.Behaviour.Reply(s).Append(nil, &ReplyValues{Host: "mx.example"}))
			checkReply(t, p.Name, text)
		}
	}
}

func checkReply(t *testing.T, name, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\r\n"), "\r\n")
	for i, line := range lines {
		separator := "-"
		if i == len(lines)-1 {
			separator = " "
		}
		if len(line) < 5 || len(line) > 510 || line[:3] != text[:3] || line[3:4] != separator {
			t.Errorf("%s: bad reply line %q", name, line)
		}
	}
}

// No persona tolerates less than the default budgets.
func TestLimitsAreNotBelowBudgets(t *testing.T) {
	budgets := map[string]Limits{
		"": {Connections: 2, ConnectionsPerMinute: 10, RcptsPerMinute: 60, RcptsPerConnection: 20,
			RefusalsPerConnection: 5, RefusalsPerHour: 20},
		"google":       {Connections: 5, RcptsPerConnection: 50, RefusalsPerConnection: 10, RefusalsPerHour: 200},
		"microsoft365": {Connections: 5, RcptsPerConnection: 50, RefusalsPerConnection: 10, RefusalsPerHour: 200},
		"outlook": {Connections: 1, RcptsPerConnection: 10, RefusalsPerConnection: 2, RefusalsPerHour: 20,
			RcptsPerTransaction: 1},
		"yahoo":  {Connections: 2, TransactionsPerConnection: 20},
		"icloud": {Connections: 2, TransactionsPerConnection: 5},
	}
	for _, p := range slices.Concat(All(), Throttlers(), Hostile()) {
		budget, own := budgets[p.Provider]
		if !own {
			budget = budgets[""]
		}
		limits, least := reflect.ValueOf(p.Limits), reflect.ValueOf(budget)
		for i := range limits.NumField() {
			if limit := limits.Field(i).Int(); limit > 0 && limit < least.Field(i).Int() {
				t.Errorf("%s: %s %d, a prober dares %d", p.Name, limits.Type().Field(i).Name, limit,
					least.Field(i).Int())
			}
		}
	}
}

// TestHostileTruthIsNotALie: whatever a hostile persona allows, a mailbox that exists is never missing, and none is
// proved that does not.
func TestHostileTruthIsNotALie(t *testing.T) {
	for _, p := range Hostile() {
		if p.Deceit == "" {
			t.Errorf("%s does not say what it does", p.Name)
		}
		for _, o := range p.Expect(Present) {
			if o.Status == StatusInvalid {
				t.Errorf("%s: %v of a mailbox that exists", p.Name, o)
			}
		}
		for _, o := range p.Expect(Absent) {
			if o.Status == StatusValid {
				t.Errorf("%s: %v of a mailbox that does not exist", p.Name, o)
			}
		}
	}
}

func TestShownMailboxState(t *testing.T) {
	for _, tt := range []struct {
		name string
		h    Behaviour
		m    Mailbox
		want Mailbox
	}{
		{"told", Behaviour{}, Full, Full},
		{"a full mailbox that is not told accepts", Behaviour{hides: hideAllBut()}, Full, Present},
		{"a disabled one that is not told is unknown", Behaviour{hides: hideAllBut()}, Disabled, Absent},
		{"a site of full mailboxes", Behaviour{becomes: Full}, Present, Full},
		{"which still knows who is absent", Behaviour{becomes: Full}, Absent, Absent},
	} {
		if got := tt.h.Shown(tt.m); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestLimitsScale(t *testing.T) {
	l := Limits{Connections: 2, RcptsPerMinute: 10, RefusalsPerHour: 20, RcptsPerTransaction: 1}
	for speedup, want := range map[float64]Limits{
		1:    l,
		60:   {Connections: 2, RcptsPerMinute: 600, RefusalsPerHour: 1200, RcptsPerTransaction: 1},
		0.25: {Connections: 2, RcptsPerMinute: 3, RefusalsPerHour: 5, RcptsPerTransaction: 1},
		0:    {RcptsPerTransaction: 1},
	} {
		if got := l.Scaled(speedup); got != want {
			t.Errorf("speed-up %g: %+v", speedup, got)
		}
	}
}
