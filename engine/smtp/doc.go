// Package smtp holds one dialogue with one mail server over one connection, as far as RCPT goes (RFC 5321).
//
// It knows how to wait for a banner, greet, start TLS, ask for many recipients in one transaction or several at once, take leave, and which
// addresses may be connected to at all. It gives back what the server said, as engine.Reply, and what went wrong, as Fault.
//
// It refuses to judge: a reply is never taken for a fact about a mailbox here. It never sends DATA. It opens no socket but
// through the dial function of a Dialer, and keeps no goroutine beyond the call that needed it.
//
// What must hold:
//
//  1. Nothing is sent before the banner has been read, and no command while a reply is unread (RFC 5321 section 4.3.1),
//     but a pipelined group to a server that offers PIPELINING (RFC 2920). A group that may not fit into the send buffer is
//     read while it is written.
//  2. What a probe met is data: a Fault, never an error.
//  3. After a timeout, a close, a 421 or a reply out of step the session is unusable: it refuses to be used again.
//  4. A recipient is told only a reply that was read in its place. Where a group ends with more replies than commands, or a
//     reply quotes the neighbour of the recipient it should be about, none of the group's replies are told.
//  5. Bounds: 4,096 bytes a line, 100 lines and 16 KiB a reply, 1 MiB a session, a time for each phase and for each transaction.
//     All of them are of Config; a server that passes one is out of step.
//  6. What came before TLS counts for nothing after it (RFC 3207 section 4.2); bytes behind the reply to STARTTLS botch the session.
//  7. Quit and Close return only when the server has closed its side too, or after a bounded wait: the server has then
//     counted us out before another connection takes the place. Once the context has ended Quit and Open reset the connection.
//  8. A text that came before in the session costs no allocation: Reply.Lines is then shared, and must not be changed.
package smtp
