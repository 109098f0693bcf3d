// Package smtpd serves the mail hosts of the simulated internet: it does what the Behaviour of each host's persona
// says, tells the referee, and answers with the persona's texts. It accepts no mail.
//
// # Invariants
//
//  1. The local address of a connection says which host it is for; a dead host answers nothing.
//  2. A session belongs to one goroutine; its input, its output and the time that it waits are bounded.
//  3. Replies are written only when the input is used up, so that a pipelined batch costs one write.
//  4. The referee learns of the end of a connection before the last replies are written.
//  5. No reply to a client that exceeds a limit looks like a missing mailbox.
//  6. Serve returns after the last of its connections has ended.
package smtpd
