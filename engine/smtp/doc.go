// Package smtp holds one dialogue with one mail server over one connection, as far as RCPT goes (RFC 5321).
//
// It waits for the banner, greets, starts TLS, sends many recipients in one transaction or in several at once, closes
// (QUIT), and decides which addresses may be connected to at all. It returns the server's replies as engine.Reply, and
// what went wrong as Fault.
//
// It does not judge: whether a reply is about a mailbox is decided elsewhere. It never sends DATA. It opens no socket
// except through the dial function of a Dialer, and keeps no goroutine beyond the call that needed it.
//
// What must hold:
//
//  1. Nothing is sent before the banner has been read, and no command while a reply is unread (RFC 5321 section 4.3.1),
//     except a pipelined group to a server that offers PIPELINING (RFC 2920). Before each write the socket is looked
//     at: a reply that has arrived and answers no command makes the session out of step.
//  2. What went wrong with a server is data: a Fault, never an error.
//  3. After a timeout, a close, a 421 or a reply out of step the session is unusable: it refuses to be used again.
//  4. A recipient gets only a reply that was read in its position. Whether no reply came too many before it, so that
//     the position is right, Confirmed and SayQuit tell.
//  5. Whatever a server sends, a line, a reply, a session and each phase and transaction have a bound.
//  6. What came before TLS does not count after it (RFC 3207 section 4.2); bytes after the reply to STARTTLS make the
//     session unusable.
//  7. Quit and Close return only when the server has closed its side too, or after a bounded wait, so that it no longer
//     counts this connection when the next one is opened.
//
// In detail:
//
//   - The replies to a group that may not fit into the send buffer are read while it is written.
//   - Careless lines are read as far as they can only mean one thing (package replyline): no space behind the code,
//     lines without a code, empty lines, a second code that refuses. Bytes beyond ASCII that are not UTF-8 are escaped,
//     for package charset to read.
//   - A positive reply of another command's code (221 to RCPT, 220 to EHLO) is out of step.
//   - If a group ends with more replies than commands, or a reply quotes the neighbour of the recipient it should be
//     about, none of the group's replies are reported.
//   - The bounds are 4,096 bytes a line, 100 lines and 16 KiB a reply, 1 MiB a session. Config sets all of them; a
//     server that exceeds a size is out of step.
//   - Once the context has ended, Quit and Open reset the connection.
//   - A repeated reply of a session allocates nothing: Reply.Lines is then shared, and must not be changed.
package smtp
