package probity_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"probity"
)

// The mail servers of this example are those of a simulated internet: simulated returns a Config with its name server
// and port, and some of its addresses. Outside of tests, leave these fields of Config out.
func ExampleVerifier_Verify() {
	cfg, addresses := simulated()
	cfg.MailFrom = "probe@prober.example"
	cfg.Sources = []probity.Source{{EHLO: "mx.prober.example"}}
	v, err := probity.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	r, err := v.Verify(context.Background(), addresses["a mailbox that does not exist"])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Status, r.Reason, r.SMTPValid)
	// Output: INVALID mailbox_not_found false
}

func ExampleVerifier_VerifyAll() {
	cfg, addresses := simulated()
	cfg.MailFrom = "probe@prober.example"
	cfg.Sources = []probity.Source{{EHLO: "mx.prober.example"}}
	v, err := probity.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	list := []string{addresses["a mailbox"], "no address", addresses["a mailbox of a catch-all domain"]}
	for r, err := range v.VerifyAll(context.Background(), slices.Values(list)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %q\n", r.Status, r.Reason)
	}
	// Output:
	// VALID ""
	// INVALID "invalid_syntax"
	// RISKY "catch_all"
}

// A form can be checked without a mail server: syntax, lists and DNS are judged alone.
func ExampleConfig_noSMTP() {
	cfg, addresses := simulated()
	cfg.NoSMTP = true
	v, err := probity.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	r, err := v.Verify(context.Background(), addresses["a mailbox"])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Status, r.Reason, r.DomainExists)
	// Output: UNKNOWN smtp_not_checked true
}
