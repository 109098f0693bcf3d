package main

import (
	"fmt"
	"runtime/debug"

	verifier "github.com/AfterShip/email-verifier"
	"github.com/badoux/checkmail"
	"github.com/truemail-rb/truemail-go"
)

// EHLO name and sender of the contestants.
const (
	helloName = "peer.bench.example"
	mailFrom  = "probe@bench.example"
)

// Answer is a peer's verdict, reduced to what all peers have.
type Answer int

// The answers.
const (
	Unknown Answer = iota
	Good
	Bad
	answers
)

// Peer is a library under comparison.
type Peer struct {
	Name   string // of its module
	Module string
	// New makes a function that verifies one address and may be called from many goroutines.
	New func() (func(address string) Answer, error)
}

// Rival is the peer with which the bars compare Probity.
const Rival = "email-verifier"

func peers() []Peer {
	return []Peer{
		{Rival, "github.com/AfterShip/email-verifier", newEmailVerifier},
		{"checkmail", "github.com/badoux/checkmail", newCheckmail},
		{"truemail-go", "github.com/truemail-rb/truemail-go", newTruemail},
	}
}

// newEmailVerifier follows the README: one Verifier with the SMTP check enabled; the catch-all check is on by default.
func newEmailVerifier() (func(string) Answer, error) {
	v := verifier.NewVerifier().EnableSMTPCheck().HelloName(helloName).FromEmail(mailFrom)
	return func(address string) Answer {
		r, err := v.Verify(address)
		switch {
		case !r.Syntax.Valid:
			return Bad
		case err != nil:
			return Unknown
		case r.Reachable == "yes":
			return Good
		case r.Reachable == "no":
			return Bad
		}
		return Unknown
	}, nil
}

// newCheckmail follows the README: first the format, then host and user.
func newCheckmail() (func(string) Answer, error) {
	return func(address string) Answer {
		if checkmail.ValidateFormat(address) != nil {
			return Bad
		}
		err := checkmail.ValidateHostAndUser(helloName, mailFrom, address)
		refused, said := err.(checkmail.SmtpError)
		switch {
		case err == nil:
			return Good
		case said && len(refused.Error()) > 3 && refused.Code() == "550":
			return Bad
		}
		return Unknown
	}, nil
}

// newTruemail follows the README: SMTP validation is the default.
func newTruemail() (func(string) Answer, error) {
	config, err := truemail.NewConfiguration(truemail.ConfigurationAttr{VerifierEmail: mailFrom,
		VerifierDomain: helloName})
	if err != nil {
		return nil, err
	}
	return func(address string) Answer {
		r, err := truemail.Validate(address, config)
		switch {
		case err != nil:
			return Unknown
		case r.Success:
			return Good
		}
		return Bad
	}, nil
}

func findPeer(name string) (Peer, error) {
	for _, p := range peers() {
		if p.Name == name {
			return p, nil
		}
	}
	return Peer{}, fmt.Errorf("no peer %q", name)
}

// version is the version of the peer's module in this binary.
func (p Peer) version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == p.Module {
			return m.Version
		}
	}
	return ""
}
