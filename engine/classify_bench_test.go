package engine

import "testing"

// BenchmarkClassify classifies the most frequent replies of a job.
func BenchmarkClassify(b *testing.B) {
	table := DefaultTable()
	google := table.Provider("google")
	sender := SenderIdentity{MailFrom: "probe@check.example.net", EHLO: "mx1.check.example.net",
		Sources: []string{"192.0.2.77"}}
	for _, bench := range []struct {
		name, raw string
		provider  *Provider
	}{
		{"accepted", "250 2.1.5 OK", google},
		{"google", "550-5.1.1 The email account that you tried to reach does not exist. Please try\n550-5.1.1 double-checking the recipient's email address for typos or\n550-5.1.1 unnecessary spaces. For more information, go to\n550 5.1.1  https://support.google.com/mail/?p=NoSuchUser a1-2b3c - gsmtp", google},
		{"postfix", "550 5.1.1 <nobody@example.com>: Recipient address rejected: User unknown in virtual mailbox table",
			nil},
		{"exim", "550 Unrouteable address", nil},
		{"unknown", "550 5.0.0 Sorry, that is not something that we do here", nil},
	} {
		r, err := ParseReply(StageRcpt, bench.raw)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Classify(bench.provider, r, sender)
			}
		})
	}
}
