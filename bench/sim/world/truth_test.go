package world

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/persona"
)

func TestTruth(t *testing.T) {
	w := New(Config{})
	mailDomain := func(name string) string {
		for _, d := range w.Domains() {
			if d.Persona.Name == name && !d.public && !d.disposable {
				return d.Name
			}
		}
		return "missing-" + name
	}
	at := func(domain string, m persona.Mailbox) string {
		d, _ := w.Domain(domain)
		h := d.key
		for _, c := range []byte("anna.novak") {
			if c != '.' || !d.foldsDots {
				h = hashByte(h, c)
			}
		}
		return "anna.novak" + itoa(numberFor(h, m, 9)) + "@" + domain
	}
	for _, tc := range []struct{ address, want string }{
		{"", ""},
		{"  \t", ""},
		{at("gmail.com", persona.Present), "VALID"},
		{" " + strings.ToUpper(at("gmail.com", persona.Present)) + "\u200b", "VALID"},
		{at("gmail.com", persona.Absent), "INVALID/mailbox_not_found"},
		{at("gmail.com", persona.Full), "RISKY/mailbox_full"},
		{at("gmail.com", persona.Disabled), "INVALID/mailbox_disabled"},
		{"a..b@docomo.ne.jp", "RISKY/accept_all_provider"},
		{"a.b.@docomo.ne.jp", "RISKY/accept_all_provider"},
		{".a.b@docomo.ne.jp", "INVALID/invalid_syntax"},
		{"..@docomo.ne.jp", "INVALID/invalid_syntax"},
		{"a..b@gmail.com", "INVALID/invalid_syntax"},
		{"a.b@gmail.com", "INVALID/provider_syntax INVALID/mailbox_not_found"},
		{at("yahoo.com", persona.Absent), "RISKY/accept_all_provider"},
		{at(mailDomain("postfix"), persona.Present), "VALID"},
		{at("mailinator.com", persona.Absent), "RISKY/disposable"},
		{at("gmaiil.com", persona.Present), "RISKY/possible_typo"},
		{"x@gmial.com", "INVALID/domain_not_found"},
		{"x@gmakl.com", "INVALID/null_mx"},
		{"x@nowhere.invalid", "INVALID/domain_not_found"},
		{"x@l.google.com", "INVALID/no_mail_server"},
		{"x@bücherei-lindau.example", "INVALID/mailbox_not_found"},
		{"x@XN--bcherei-lindau-gsb.example", "INVALID/mailbox_not_found"},
		{"no-at", "INVALID/invalid_syntax"},
		{"a@b@" + mailDomain("postfix"), "INVALID/invalid_syntax"},
		{"a..b@gmail.com", "INVALID/invalid_syntax"},
		{"a@localhost", "INVALID/invalid_syntax"},
		{"a b@gmail.com", "INVALID/invalid_syntax"},
		{"a@-gmail.com", "INVALID/invalid_syntax"},
		{"a@gmail.123", "INVALID/invalid_syntax"},
		{strings.Repeat("a", 65) + "@gmail.com", "INVALID/invalid_syntax"},
		{"Ann <ann@gmail.com>", "INVALID/invalid_syntax"},
	} {
		require.Equal(t, tc.want, formatOutcomes(w.Truth(tc.address)), "%q", tc.address)
	}
}

func formatOutcomes(all []persona.Outcome) string {
	var words []string
	for _, o := range all {
		words = append(words, strings.TrimSuffix(o.Status+"/"+o.Reason, "/"))
	}
	return strings.Join(words, " ")
}

func TestTruthOfRoles(t *testing.T) {
	w := New(Config{})
	seen := map[string]bool{}
	for _, d := range w.Domains() {
		if d.Persona.Name == "postfix" && !d.public {
			seen[formatOutcomes(w.Truth("Info@"+d.Name))] = true
		}
	}
	require.Equal(t, map[string]bool{"RISKY/role_account": true, "INVALID/mailbox_not_found": true}, seen)
}

// A server without SMTPUTF8 cannot be probed for a non-ASCII name.
func TestTruthOfNonASCIINames(t *testing.T) {
	w := New(Config{})
	for _, d := range w.Domains() {
		said := formatOutcomes(w.Truth("jörg.lodane@" + d.Name))
		switch {
		case d.Persona.Name == "postfix" && !d.typo && d.Persona.SMTPUTF8:
			require.Equal(t, "INVALID/mailbox_not_found", said)
		case d.Persona.Oddity == persona.NullMX:
			require.Equal(t, "INVALID/null_mx", said)
		case d.Persona.Provider == "docomo":
			require.Equal(t, "RISKY/accept_all_provider", said)
		case d.Persona.Name == "exim" && !d.Persona.SMTPUTF8:
			require.Equal(t, "UNKNOWN/smtputf8_unsupported", said)
		}
	}
}

// Any cell of a list has a truth, with known statuses only.
func TestEveryMailboxHasATruth(t *testing.T) {
	w := New(Config{})
	for _, p := range w.Personas() {
		for m := range persona.MailboxStates {
			for _, o := range w.outcomes[p][m] {
				require.Contains(t, []string{persona.StatusValid, persona.StatusRisky, persona.StatusInvalid,
					persona.StatusUnknown}, o.Status, p.Name)
				require.Equal(t, o.Status == persona.StatusValid, o.Reason == "", p.Name)
			}
			require.NotEmpty(t, w.outcomes[p][m], p.Name)
		}
	}
}

func FuzzTruth(f *testing.F) {
	w := New(Config{})
	for _, seed := range []string{"", "a@b.c", "anna.novak12345@gmail.com", "@", "a@", "\u00e9@yahoo.com",
		"a@xn--.example"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		said := w.Truth(address)
		blank := strings.TrimFunc(address, isPadding) == ""
		if blank != (len(said) == 0) {
			t.Fatalf("%q: %v", address, said)
		}
	})
}

func BenchmarkNewWorld(b *testing.B) {
	for b.Loop() {
		New(Config{})
	}
}
