package smtpd

import (
	"bytes"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		line          string
		verb          verb
		ok            bool
		local, domain string
		params        string
	}{
		{"MAIL FROM:<a@b.example>", verbMail, true, "a", "b.example", ""},
		{"mail from:<a@b.example> SIZE=10 SMTPUTF8", verbMail, true, "a", "b.example", "SIZE=10 SMTPUTF8"},
		{"MAIL FROM:<>", verbMail, true, "", "", ""},
		{"MAIL FROM: <a@b.example>", verbMail, true, "a", "b.example", ""},
		{"RCPT TO:<a@b.example>", verbRcpt, true, "a", "b.example", ""},
		{"rCpT tO:<a@b.example>", verbRcpt, true, "a", "b.example", ""},
		{"RCPT TO:<@relay.example:a@b.example>", verbRcpt, true, "a", "b.example", ""},
		{`RCPT TO:<"a b>c"@b.example>`, verbRcpt, true, `"a b>c"`, "b.example", ""},
		{`RCPT TO:<"a\"@x"@b.example>`, verbRcpt, true, `"a\"@x"`, "b.example", ""},
		{"RCPT TO:<a b@b.example>", verbRcpt, false, "a b", "b.example", ""},
		{"RCPT TO:<a@b.example", verbRcpt, false, "", "", ""},
		{"RCPT TO:a@b.example", verbRcpt, false, "", "", ""},
		{"RCPT TO:<@b.example>", verbRcpt, false, "", "", ""},
		{"RCPT TO:<a@>", verbRcpt, false, "", "", ""},
		{"RCPT FROM:<a@b.example>", verbRcpt, false, "", "", ""},
		{"RCPT", verbRcpt, false, "", "", ""},
		{"quit", verbQuit, false, "", "", ""},
		{"STARTTLS", verbStartTLS, false, "", "", ""},
		{"QUITE", verbNone, false, "", "", ""},
		{"", verbNone, false, "", "", ""},
	} {
		c := parse([]byte(tt.line))
		if c.verb != tt.verb || c.wellFormed != tt.ok || string(c.local) != tt.local ||
			string(c.domain) != tt.domain || string(c.params) != tt.params {
			t.Errorf("%q: %d %v %q %q %q", tt.line, c.verb, c.wellFormed, c.local, c.domain, c.params)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("RCPT TO:<@r.example:a@b.example> X"))
	f.Add([]byte(`MAIL FROM:<"a\`))
	f.Fuzz(func(t *testing.T, line []byte) {
		c := parse(line)
		if !c.wellFormed || len(c.path) == 0 {
			return
		}
		joined := string(c.local) + "@" + string(c.domain)
		if joined != string(c.path) || bytes.IndexByte(c.domain, '@') >= 0 {
			t.Errorf("%q: local %q, domain %q", line, c.local, c.domain)
		}
	})
}
