package baseline

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"probity/bench/process"
)

// SMTP is the bare pipelined SMTP client: many connections, commands in bursts (RFC 2920), replies counted and not
// judged. Its cost per recipient is the least that probing can cost.
type SMTP struct {
	Dial       Dial
	Timeout    time.Duration // of one burst
	EHLO, From string
}

// Count counts what a client did.
type Count struct {
	Recipients  int // that got a reply
	Accepted    int // of them
	Lost        int // that got none
	Judged      int // got a verdict; a bare client judges none
	Connections int
	Elapsed     time.Duration
	CPU         time.Duration // of this process
}

// Add adds another part of the same work.
func (c *Count) Add(d Count) {
	c.Recipients += d.Recipients
	c.Accepted += d.Accepted
	c.Lost += d.Lost
	c.Judged += d.Judged
	c.Connections += d.Connections
	c.Elapsed += d.Elapsed
	c.CPU += d.CPU
}

// Rate is recipients per second.
func (c Count) Rate() float64 {
	if c.Elapsed == 0 {
		return 0
	}
	return float64(c.Recipients) / c.Elapsed.Seconds()
}

// A RunTask runs the i-th task of a measurement; it may be called concurrently.
type RunTask func(ctx context.Context, i int) Count

// runAll runs tasks, at most workers at one time.
func runAll(ctx context.Context, workers, tasks int, run RunTask) (total Count, err error) {
	start, before := time.Now(), process.OwnCPU()
	var (
		pool sync.WaitGroup
		mu   sync.Mutex // guards total
	)
	next := make(chan int)
	for range max(1, workers) {
		pool.Go(func() {
			for i := range next {
				count := run(ctx, i)
				mu.Lock()
				total.Add(count)
				mu.Unlock()
			}
		})
	}
	for i := range tasks {
		next <- i
	}
	close(next)
	pool.Wait()
	total.Elapsed, total.CPU = time.Since(start), process.OwnCPU()-before
	if total.Recipients == 0 && tasks > 0 {
		return total, errors.Join(errors.New("no reply came to any recipient"), ctx.Err())
	}
	return total, ctx.Err()
}

// Tasks that take less than minMeasureTime are repeated, at most maxRounds times: a few milliseconds are too short to
// measure.
const (
	minMeasureTime = 500 * time.Millisecond
	maxRounds      = 20
)

// Measure runs tasks, at most workers at one time, and repeats them until there is enough to measure.
func Measure(ctx context.Context, workers, tasks int, run RunTask) (total Count, err error) {
	for round := 0; round < maxRounds && total.Elapsed < minMeasureTime && err == nil; round++ {
		var count Count
		count, err = runAll(ctx, workers, tasks, run)
		total.Add(count)
	}
	return total, err
}

// maxFailedConnections is how many connections in a row may end without a reply to a recipient before a task is given
// up.
const maxFailedConnections = 2

// RunTask runs one task over as many connections as its host requires.
func (s SMTP) RunTask(ctx context.Context, e Task) (count Count) {
	e.Transactions = slices.Clone(e.Transactions) // it is consumed, and the caller may run the task again
	for failed := 0; len(e.Transactions) > 0 && failed < maxFailedConnections && ctx.Err() == nil; {
		count.Connections++
		done, accepted := s.converse(ctx, &e)
		count.Recipients += done
		count.Accepted += accepted
		failed++
		if done > 0 {
			failed = 0
		}
	}
	count.Lost = e.recipients()
	return count
}

// converse sends recipients over one connection, and leaves the unsent ones in e.
func (s SMTP) converse(ctx context.Context, e *Task) (done, accepted int) {
	conn, err := s.Dial(ctx, "tcp", e.At.String())
	if err != nil {
		return 0, 0
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	session := bareSession{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), timeout: s.Timeout}
	burst, err := session.greet(s.EHLO)
	for err == nil && len(e.Transactions) > 0 {
		var n, ok int
		n, ok, err = session.ask(s.From, &e.Transactions, burst)
		done, accepted = done+n, accepted+ok
	}
	return done, accepted
}

// bareSession is one connection of a bare client.
type bareSession struct {
	conn    net.Conn
	in      *bufio.Reader
	timeout time.Duration
	out     []byte
	sent    []byte // one letter a command that was sent: M, R or X
}

// burstSize is how many recipients are sent before replies are read. Their replies must fit into the buffers of the
// connection.
const burstSize = 100

// errNotServed means that the host does not serve this connection.
var errNotServed = errors.New("turned away")

// greet waits for the banner and says EHLO. The burst is 1 when the host does not announce PIPELINING.
func (s *bareSession) greet(ehlo string) (burst int, err error) {
	if err := s.conn.SetDeadline(time.Now().Add(s.timeout)); err != nil {
		return 0, err
	}
	if code, _, err := s.reply(); err != nil || code != '2' {
		return 0, errors.Join(err, errNotServed)
	}
	if _, err := fmt.Fprintf(s.conn, "EHLO %s\r\n", ehlo); err != nil {
		return 0, err
	}
	code, pipelining, err := s.reply()
	if err != nil || code != '2' {
		return 0, errors.Join(err, errNotServed)
	}
	if pipelining {
		return burstSize, nil
	}
	return 1, nil
}

// ask sends whole transactions of at least burst recipients, reads the replies, and removes the answered recipients.
// A host without PIPELINING gets one command at a time.
func (s *bareSession) ask(from string, transactions *[][]string, burst int) (done, accepted int, err error) {
	if err := s.conn.SetDeadline(time.Now().Add(s.timeout)); err != nil {
		return 0, 0, err
	}
	s.out, s.sent = s.out[:0], s.sent[:0]
	taken := 0
	for n := 0; n < burst && taken < len(*transactions); taken++ {
		s.out = append(append(append(s.out, "MAIL FROM:<"...), from...), ">\r\n"...)
		s.sent = append(s.sent, 'M')
		for _, r := range (*transactions)[taken] {
			s.out = append(append(append(s.out, "RCPT TO:<"...), r...), ">\r\n"...)
			s.sent = append(s.sent, 'R')
		}
		s.out = append(s.out, "RSET\r\n"...)
		s.sent = append(s.sent, 'X')
		n += len((*transactions)[taken])
	}
	if burst == 1 {
		done, accepted, err = s.sendOneByOne()
	} else if _, err = s.conn.Write(s.out); err == nil {
		done, accepted, err = s.replies(s.sent)
	}
	*transactions = dropRecipients(*transactions, done)
	return done, accepted, err
}

// sendOneByOne sends each queued command after the reply to the one before.
func (s *bareSession) sendOneByOne() (done, accepted int, err error) {
	out := s.out
	for i := range s.sent {
		end := bytes.IndexByte(out, '\n') + 1
		if _, err := s.conn.Write(out[:end]); err != nil {
			return done, accepted, err
		}
		out = out[end:]
		d, a, err := s.replies(s.sent[i : i+1])
		done, accepted = done+d, accepted+a
		if err != nil {
			return done, accepted, err
		}
	}
	return done, accepted, nil
}

// replies reads one reply to each command sent and counts those to RCPT.
func (s *bareSession) replies(sent []byte) (done, accepted int, err error) {
	for _, command := range sent {
		code, _, err := s.reply()
		if err != nil {
			return done, accepted, err
		}
		if command == 'R' {
			done++
			if code == '2' {
				accepted++
			}
		}
	}
	return done, accepted, nil
}

// reply reads one reply (RFC 5321 section 4.2.1) and returns the first digit of its code, and whether a line of it was
// the keyword PIPELINING.
func (s *bareSession) reply() (code byte, pipelining bool, err error) {
	for {
		line, err := s.in.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		if len(line) > 4 && bytes.HasPrefix(line[4:], []byte("PIPELINING")) {
			pipelining = true
		}
		if len(line) < 4 || line[3] != '-' {
			return line[0], pipelining, nil
		}
	}
}

// dropRecipients drops the first n recipients.
func dropRecipients(transactions [][]string, n int) [][]string {
	for n > 0 && len(transactions) > 0 {
		first := transactions[0]
		if n < len(first) {
			transactions[0] = first[n:]
			break
		}
		n -= len(first)
		transactions = transactions[1:]
	}
	return transactions
}
