// Package probity verifies e-mail addresses inside another Go program, with the verdicts of the command "probity
// verify".
//
//	v, err := probity.New(probity.Config{
//		MailFrom: "probe@example.org",
//		Sources:  []probity.Source{{EHLO: "mx1.example.org"}},
//	})
//	if err != nil {
//		return err
//	}
//	defer v.Close()
//	r, err := v.Verify(ctx, "ann@example.com")
//
// Without MailFrom and Sources no public mail server is connected to: addresses that need an SMTP check stay UNKNOWN
// with the reason smtp_not_checked. docs/library.md compares the package with others.
//
// Invariants:
//  1. Verdicts are those of "probity verify": an error means that we failed, and what a server answered is a Result.
//  2. No public mail server is connected to by a program that does not say who it is.
//  3. Budgets of receivers hold for all calls of a Verifier together. Use one for the process, for as long as it runs.
//  4. After Close nothing runs any more, and every call returns ErrClosed.
//  5. From version 1.0 on, what this package exports is kept, and so are the values of Status and Reason; new fields
//     and new reasons may come. Packages below internal, and all others of this module, are not part of the promise.
package probity
