package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// smtpFloor is the bare pipelined SMTP client: connections in plenty, commands in bursts (RFC 2920), replies counted and
// not judged. What it needs per recipient is the least that asking for recipients can cost.
type smtpFloor struct {
	dial        Dial
	port        int
	connections int
	timeout     time.Duration // of one burst
	ehlo, from  string
}

// floorCount is what a bare client did.
type floorCount struct {
	Recipients  int // that got a reply
	Accepted    int // of them
	Lost        int // that got none
	Judged      int // to their verdict; a bare client judges none
	Connections int
	Elapsed     time.Duration
	CPU         time.Duration // of this process
}

func (c *floorCount) add(d floorCount) {
	c.Recipients += d.Recipients
	c.Accepted += d.Accepted
	c.Lost += d.Lost
	c.Judged += d.Judged
	c.Connections += d.Connections
	c.Elapsed += d.Elapsed
	c.CPU += d.CPU
}

// rate is recipients per second.
func (c floorCount) rate() float64 { return ratio(float64(c.Recipients), c.Elapsed.Seconds()) }

// defaultFloor is the bare client that a scenario is compared with. It comes from another source address than the prober, so that
// the two share no budget, and no greylist entry, of the pretend internet.
func (t *Trial) defaultFloor(in *internet) smtpFloor {
	return smtpFloor{dial: t.Dial, port: in.smtpPort, connections: 32, timeout: 10 * time.Second,
		ehlo: "floor.bench.example", from: "floor@bench.example"}
}

// hands go on errands, so many at one time.
type hands struct {
	many int
	goOn func(ctx context.Context, i int) floorCount // the i-th errand
}

func (f smtpFloor) hands(errands []errand) hands {
	return hands{f.connections, func(ctx context.Context, i int) floorCount { return f.goOn(ctx, errands[i]) }}
}

// run goes on so many errands.
func (h hands) run(ctx context.Context, errands int) (total floorCount, err error) {
	began, before := time.Now(), ownCPU()
	var (
		workers sync.WaitGroup
		mu      sync.Mutex // guards total
	)
	next := make(chan int)
	for range max(1, h.many) {
		workers.Go(func() {
			for i := range next {
				count := h.goOn(ctx, i)
				mu.Lock()
				total.add(count)
				mu.Unlock()
			}
		})
	}
	for i := range errands {
		next <- i
	}
	close(next)
	workers.Wait()
	total.Elapsed, total.CPU = time.Since(began), ownCPU()-before
	if total.Recipients == 0 && errands > 0 {
		return total, errors.Join(errors.New("no reply came to any recipient"), ctx.Err())
	}
	return total, ctx.Err()
}

// Errands that take less than enoughTime are gone on again, mostRounds times at most: a few milliseconds measure little.
const (
	enoughTime = 500 * time.Millisecond
	mostRounds = 20
)

// repeat goes on the errands until there is enough to measure.
func (h hands) repeat(ctx context.Context, errands int) (total floorCount, err error) {
	for round := 0; round < mostRounds && total.Elapsed < enoughTime && err == nil; round++ {
		var count floorCount
		count, err = h.run(ctx, errands)
		total.add(count)
	}
	return total, err
}

// fruitless is how many connections in a row may end without a reply to a recipient before an errand is given up.
const fruitless = 2

// goOn does one errand over as many connections as its host makes it take.
func (f smtpFloor) goOn(ctx context.Context, e errand) (count floorCount) {
	e.transactions = slices.Clone(e.transactions) // it is used up, and the caller may go again
	for failed := 0; len(e.transactions) > 0 && failed < fruitless && ctx.Err() == nil; {
		count.Connections++
		done, accepted := f.converse(ctx, &e)
		count.Recipients += done
		count.Accepted += accepted
		if failed++; done > 0 {
			failed = 0
		}
	}
	count.Lost = e.recipients()
	return count
}

// converse asks over one connection, and leaves in e what was not asked.
func (f smtpFloor) converse(ctx context.Context, e *errand) (done, accepted int) {
	conn, err := f.dial(ctx, "tcp", netip.AddrPortFrom(e.host, uint16(f.port)).String())
	if err != nil {
		return 0, 0
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	s := bareSession{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), timeout: f.timeout}
	burst, err := s.greet(f.ehlo)
	for err == nil && len(e.transactions) > 0 {
		var n, ok int
		n, ok, err = s.ask(f.from, &e.transactions, burst)
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

// burstOf is how many recipients are asked for before replies are read: few enough that the replies fit into the buffers
// of the connection while they are not read.
const burstOf = 100

// errTurnedAway means that the host does not serve this connection.
var errTurnedAway = errors.New("turned away")

// greet waits for the banner and says EHLO. The burst is 1 when the host does not announce PIPELINING.
func (s *bareSession) greet(ehlo string) (burst int, err error) {
	if err := s.conn.SetDeadline(time.Now().Add(s.timeout)); err != nil {
		return 0, err
	}
	if code, _, err := s.reply(); err != nil || code != '2' {
		return 0, errors.Join(err, errTurnedAway)
	}
	if _, err := fmt.Fprintf(s.conn, "EHLO %s\r\n", ehlo); err != nil {
		return 0, err
	}
	code, pipelining, err := s.reply()
	if err != nil || code != '2' {
		return 0, errors.Join(err, errTurnedAway)
	}
	if pipelining {
		return burstOf, nil
	}
	return 1, nil
}

// ask sends whole transactions of at least burst recipients, reads the replies, and takes what was answered off the list.
// A host without PIPELINING gets one command at a time.
func (s *bareSession) ask(from string, transactions *[][]string, burst int) (done, accepted int, err error) {
	if err := s.conn.SetDeadline(time.Now().Add(s.timeout)); err != nil {
		return 0, 0, err
	}
	s.out, s.sent = s.out[:0], s.sent[:0]
	taken := 0
	for n := 0; n < burst && taken < len(*transactions); taken++ {
		s.queue(from, (*transactions)[taken])
		n += len((*transactions)[taken])
	}
	if burst == 1 {
		done, accepted, err = s.alternate()
	} else if _, err = s.conn.Write(s.out); err == nil {
		done, accepted, err = s.replies(s.sent)
	}
	*transactions = without(*transactions, done)
	return done, accepted, err
}

// queue appends the commands of one transaction.
func (s *bareSession) queue(from string, recipients []string) {
	s.out = append(append(append(s.out, "MAIL FROM:<"...), from...), ">\r\n"...)
	s.sent = append(s.sent, 'M')
	for _, r := range recipients {
		s.out = append(append(append(s.out, "RCPT TO:<"...), r...), ">\r\n"...)
		s.sent = append(s.sent, 'R')
	}
	s.out = append(s.out, "RSET\r\n"...)
	s.sent = append(s.sent, 'X')
}

// alternate sends each queued command after the reply to the one before.
func (s *bareSession) alternate() (done, accepted int, err error) {
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

// without drops the first n recipients.
func without(transactions [][]string, n int) [][]string {
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

// ratio is a/b, and 0 where there is no b.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
