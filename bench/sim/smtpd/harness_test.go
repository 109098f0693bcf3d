package smtpd

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/referee"
	"probity/bench/sim/world"
	"probity/internal/memnet"
)

// clientAddr is where a client connects from.
var clientAddr = netip.MustParseAddrPort("127.16.0.9:25")

// harness is a simulated internet in memory with every host listening, to be made
// inside a bubble.
type harness struct {
	t       *testing.T
	world   *world.World
	referee *referee.Referee
	net     *memnet.Network
	port    uint16
	numbers map[string][persona.MailboxStates]int // of the mailboxes found, by name and domain
}

// inBubble runs f with a harness inside a synctest bubble.
func inBubble(t *testing.T, c world.Config, f func(*harness)) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(c)
		h := &harness{t: t, world: w, referee: referee.New(c.Speedup), net: memnet.New(),
			port: uint16(w.Config().SMTPPort)}
		server, err := New(w, h.referee)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		for _, host := range w.Hosts() {
			for _, addr := range host.Addrs {
				if host.Role == world.Dead {
					continue
				}
				ln, err := h.net.Listen(netip.AddrPortFrom(addr, h.port))
				if err != nil {
					t.Fatal(err)
				}
				go server.Serve(ctx, ln)
			}
		}
		f(h)
	})
}

// domainOf finds a persona's host of that role, the one with the lowest
// address, and a domain that it serves.
func (h *harness) domainOf(name string, role world.Role) (*world.Domain, *world.Host) {
	var found *world.Host
	for _, host := range h.world.Hosts() {
		if host.Persona.Name == name && host.Role == role && (found == nil || host.Addrs[0].Less(found.Addrs[0])) {
			found = &host
		}
	}
	for _, d := range h.world.Domains() {
		if found != nil && d.Persona == found.Persona && d.Name != "gmail.com" && d.Name != "googlemail.com" {
			return &d, found
		}
	}
	h.t.Fatalf("no host of %s", name)
	return nil, nil
}

// mailbox finds the address of a mailbox in state m: the name and a number. It tries the numbers once for each name.
func (h *harness) mailbox(d *world.Domain, name string, m persona.Mailbox) string {
	numbers := h.numbers[name+"@"+d.Name]
	for n := 10_000; n < 100_000 && numbers[m] == 0; n++ {
		if state := h.world.Mailbox(d.Name, name+strconv.Itoa(n)); state != persona.Absent {
			numbers[state] = n
		}
		if numbers[persona.Present] == n {
			numbers[persona.Absent] = 10_000 + (n-9_000)%90_000 // far from those that exist
		}
	}
	if h.numbers == nil {
		h.numbers = map[string][persona.MailboxStates]int{}
	}
	h.numbers[name+"@"+d.Name] = numbers
	return name + strconv.Itoa(numbers[m]) + "@" + d.Name
}

// smtpClient is a client that speaks line by line.
type smtpClient struct {
	h    *harness
	conn net.Conn
	in   *bufio.Reader
}

func (h *harness) dial(host *world.Host) *smtpClient {
	conn, err := h.net.Dial(h.t.Context(), "tcp", netip.AddrPortFrom(host.Addrs[0], h.port).String())
	if err != nil {
		h.t.Fatal(err)
	}
	return &smtpClient{h: h, conn: conn, in: bufio.NewReader(conn)}
}

// reply reads one reply with all its lines, or an error in brackets.
func (c *smtpClient) reply() string {
	c.conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	var lines []string
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return strings.Join(append(lines, "["+err.Error()+"]"), "\n")
		}
		line = strings.TrimRight(line, "\r\n")
		lines = append(lines, line)
		if len(line) < 4 || line[3] != '-' {
			return strings.Join(lines, "\n")
		}
	}
}

func (c *smtpClient) send(lines ...string) {
	c.conn.Write([]byte(strings.Join(lines, "\r\n") + "\r\n"))
}

// ask sends one command and returns its reply.
func (c *smtpClient) ask(line string) string {
	c.send(line)
	return c.reply()
}

// startTransaction does all that comes before the recipient, with TLS where it must be. It
// returns the first reply that is not as it should be, else "".
func (c *smtpClient) startTransaction() string {
	if banner := c.reply(); !strings.HasPrefix(banner, "220") {
		return banner
	}
	c.ask("EHLO probe.example")
	said := c.ask("MAIL FROM:<ask@probe.example>")
	if strings.HasPrefix(said, "530") {
		c.startTLS()
		c.ask("EHLO probe.example")
		said = c.ask("MAIL FROM:<ask@probe.example>")
	}
	if !strings.HasPrefix(said, "250") {
		return said
	}
	return ""
}

func (c *smtpClient) startTLS() string {
	if said := c.ask("STARTTLS"); !strings.HasPrefix(said, "220") {
		return said
	}
	return c.secure()
}

// secure does the handshake.
func (c *smtpClient) secure() string {
	secured := tls.Client(c.conn, &tls.Config{InsecureSkipVerify: true})
	if err := secured.Handshake(); err != nil {
		return "[" + err.Error() + "]"
	}
	c.conn, c.in = secured, bufio.NewReader(secured)
	return ""
}

// quit ends the connection with QUIT, and waits until the server has seen it.
func (c *smtpClient) quit() {
	c.ask("QUIT")
	c.conn.Close()
	synctest.Wait()
}

// excessKinds counts the excesses of each kind.
func (h *harness) excessKinds() map[string]int {
	counts := map[string]int{}
	for _, e := range h.referee.Report().By {
		counts[e.Kind] += e.Count
	}
	return counts
}
