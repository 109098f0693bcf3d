package smtpd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// answeringPersonas lists the personas that answer each recipient by its mailbox.
func answeringPersonas() []*persona.Persona {
	var out []*persona.Persona
	for _, p := range persona.All() {
		if p.Behaviour.Fault == persona.FaultNone && p.Behaviour.RefuseAt == 0 &&
			(len(p.MXHosts("d.example")) > 0 || p.Oddity == persona.ImplicitMX) &&
			p.Oddity != persona.Unroutable && p.Oddity != persona.DanglingMX && p.Oddity != persona.HostServFail {
			out = append(out, p)
		}
	}
	return out
}

// wantCode is the class of the RCPT reply that leads an honest verifier to the
// first expected outcome.
func wantCode(p *persona.Persona, m persona.Mailbox) string {
	switch o := p.Expect(m)[0]; {
	case o.Status == "VALID", o.Status == "RISKY" && o.Reason != "mailbox_full":
		return "2"
	case o.Reason == "mailbox_full":
		return ".52"
	case o.Status == "INVALID":
		return "5"
	default:
		return "4"
	}
}

func matches(reply, want string) bool {
	return len(reply) >= len(want) && (want == reply[:len(want)] || want == ".52" && reply[1:3] == "52")
}

// A host's replies must lead an honest verifier to the truth.
func TestHostsSayWhatIsExpected(t *testing.T) {
	inBubble(t, world.Config{Speedup: 1}, func(h *harness) {
		for _, p := range answeringPersonas() {
			role := world.Primary
			if p.Behaviour.PrimaryBusy || p.Oddity == persona.DeadPrimary {
				role = world.Backup
			}
			d, host := h.domainOf(p.Name, role)
			for m := range persona.MailboxStates {
				h.checkMailbox(p, host, h.mailbox(d, "ann", m), m)
			}
		}
		if rep := h.referee.Report(); rep.Excesses != 0 {
			t.Errorf("excesses in a polite run: %+v", rep.By)
		}
	})
}

func (h *harness) checkMailbox(p *persona.Persona, host *world.Host, address string, m persona.Mailbox) {
	said := h.askOnce(host, address)
	if p.Behaviour.Greylisting != persona.GreyNone {
		if said[0] != '4' {
			h.t.Errorf("%s: first contact: %s", p.Name, said)
		}
		time.Sleep(p.Behaviour.GreyWait)
		said = h.askOnce(host, address)
	}
	if !matches(said, wantCode(p, m)) {
		h.t.Errorf("%s: mailbox state %d, expecting %v: %s", p.Name, m, p.Expect(m), said)
	}
	if refused := said[0] == '5'; refused != p.Refuses(m) {
		h.t.Errorf("%s: mailbox state %d, Refuses says %t: %s", p.Name, m, p.Refuses(m), said)
	}
}

// askOnce returns a host's reply to one recipient, on a connection of its own.
func (h *harness) askOnce(host *world.Host, address string) string {
	c := h.dial(host)
	defer c.quit()
	if said := c.startTransaction(); said != "" {
		return said
	}
	return c.ask("RCPT TO:<" + address + ">")
}

func TestRefusersAndBrokenHosts(t *testing.T) {
	tests := map[string]string{ // persona -> how the conversation ends
		"blocked-banner": "554 5.7.1",
		"blocked-rcpt":   "554 5.7.1",
		"sender-verify":  "550-Verification failed for <ask@probe.example>",
		"sender-refused": "550 5.1.8 <ask@probe.example>",
		"relay-denied":   "554 5.7.1",
		"temporary":      "451 4.3.0",
		"garbage":        "\x16\x03",
		"out-of-step":    "250 2.0.0 Still here",
		"reset":          "[read tcp",
		"silent":         "[read tcp",
		"mute":           "[read tcp",
	}
	inBubble(t, world.Config{Speedup: 1}, func(h *harness) {
		for name, want := range tests {
			d, host := h.domainOf(name, world.Primary)
			c := h.dial(host)
			said := c.startTransaction()
			if said == "" {
				said = c.ask("RCPT TO:<" + h.mailbox(d, "ann", persona.Present) + ">")
			}
			if !strings.HasPrefix(said, want) {
				t.Errorf("%s: %q, want %q", name, said, want)
			}
			c.conn.Close()
		}
	})
}

func TestMidCloseAnswersTwo(t *testing.T) {
	inBubble(t, world.Config{}, func(h *harness) {
		d, host := h.domainOf("mid-close", world.Primary)
		c := h.dial(host)
		c.startTransaction()
		var got []string
		for range 3 {
			got = append(got, c.ask("RCPT TO:<" + h.mailbox(d, "ann", persona.Present) + ">")[:4])
		}
		if want := []string{"250 ", "250 ", "[EOF"}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

func TestEndlessBannerIsBounded(t *testing.T) {
	inBubble(t, world.Config{}, func(h *harness) {
		_, host := h.domainOf("endless", world.Primary)
		if said := h.dial(host).reply(); strings.Count(said, "\n") != longReplyLines {
			t.Errorf("%d lines", strings.Count(said, "\n"))
		}
	})
}

func TestBannerWaitIsScaled(t *testing.T) {
	for _, tt := range []struct {
		persona string
		speedup float64
		want    time.Duration
	}{
		{"slow-banner", 1, 6 * time.Second}, {"slow-banner", 6, time.Second}, {"slow-banner", 0, 0}, {"postfix", 1, 0},
	} {
		inBubble(t, world.Config{Speedup: tt.speedup}, func(h *harness) {
			_, host := h.domainOf(tt.persona, world.Primary)
			start := time.Now()
			h.dial(host).reply()
			if took := time.Since(start); took != tt.want {
				t.Errorf("%s at %g: banner after %v", tt.persona, tt.speedup, took)
			}
		})
	}
}

func TestEarlyTalkerIsRefused(t *testing.T) {
	inBubble(t, world.Config{Speedup: 1}, func(h *harness) {
		_, host := h.domainOf("early-talker", world.Primary)
		c := h.dial(host)
		if said := c.ask("EHLO hasty.example"); !strings.HasPrefix(said, "554") {
			t.Error(said)
		}
	})
}

func TestWaitEndsWhenTheClientCloses(t *testing.T) {
	inBubble(t, world.Config{Speedup: 1}, func(h *harness) {
		_, host := h.domainOf("mute", world.Primary)
		for range 3 * host.Persona.Limits.Connections {
			c := h.dial(host)
			time.Sleep(time.Second)
			c.conn.Close()
			synctest.Wait()
		}
		if rep := h.referee.Report(); rep.Excesses != 0 {
			t.Errorf("%+v", rep.By)
		}
	})
}

func TestGreylistTripleIsOfSenderAndRecipient(t *testing.T) {
	inBubble(t, world.Config{Speedup: 60}, func(h *harness) {
		d, host := h.domainOf("greylist-triple", world.Primary)
		c := h.dial(host)
		c.startTransaction()
		to := "RCPT TO:<" + h.mailbox(d, "ann", persona.Present) + ">"
		ask := func(from string) string {
			c.ask("RSET")
			c.ask("MAIL FROM:<" + from + ">")
			return c.ask(to)[:3]
		}
		got := []string{c.ask(to)[:3], ask("ask@probe.example")}
		time.Sleep(5 * time.Second) // five minutes, sixty times as fast
		got = append(got, ask("other@probe.example"), ask("ask@probe.example"))
		if want := []string{"450", "450", "450", "250"}; !slices.Equal(got, want) {
			t.Errorf("%v", got)
		}
	})
}

// Each row exceeds one limit, and gets the persona's reply to that.
func TestExcessIsThrottled(t *testing.T) {
	for _, tt := range []struct {
		persona string
		rcpts   int
		state   persona.Mailbox
		group   int // recipients of a transaction
		kind    string
		last    string
	}{
		{"outlook", 2, persona.Present, 2, "rcpts_per_transaction", "452 4.5.3"},
		{"outlook", 3, persona.Absent, 1, "refusals_per_connection", "421 RP-002"},
		{"icloud", 6, persona.Present, 1, "transactions_per_connection", "421 4.7.1"},
		{"google", 51, persona.Present, 100, "rcpts_per_connection", "421-4.7.0"},
		{"strict", 6, persona.Absent, 20, "refusals_per_connection", "421 4.7.0"},
		{"cisco", 26, persona.Absent, 50, "refusals_per_hour", "550 #5.7.1 Too many invalid"},
		{"cisco", 32, persona.Absent, 50, "refusals_per_hour", "250 recipient"},
		{"godaddy", 51, persona.Absent, 100, "refusals_per_hour", "554 This IP has been temporarily blocked"},
	} {
		inBubble(t, world.Config{Speedup: 1}, func(h *harness) {
			d, host := h.domainOf(tt.persona, world.Primary)
			c := h.dial(host)
			c.startTransaction()
			said := ""
			for i := range tt.rcpts {
				if i > 0 && i%tt.group == 0 {
					c.ask("RSET")
					said = c.ask("MAIL FROM:<ask@probe.example>")
				}
				if !strings.HasPrefix(said, "421") {
					said = c.ask(fmt.Sprintf("RCPT TO:<%s>",
						h.mailbox(d, fmt.Sprintf("ann.%c%c", 'a'+i/26, 'a'+i%26), tt.state)))
				}
			}
			if !strings.HasPrefix(said, tt.last) {
				t.Errorf("%s after %d: %s, want %s", tt.persona, tt.rcpts, said, tt.last)
			}
			if h.excessKinds()[tt.kind] == 0 {
				t.Errorf("%s: no excess of %s: %+v", tt.persona, tt.kind, h.referee.Report())
			}
		})
	}
}

func TestTooManyConnections(t *testing.T) {
	inBubble(t, world.Config{Speedup: 1}, func(h *harness) {
		_, host := h.domainOf("too-many-connections", world.Primary)
		a, b := h.dial(host), h.dial(host)
		a.reply()
		b.reply()
		c := h.dial(host)
		if said := c.reply(); !strings.HasPrefix(said, "421") {
			t.Error(said)
		}
		c.conn.Close()
		a.quit()
		if said := h.dial(host).reply(); !strings.HasPrefix(said, "220") {
			t.Error(said)
		}
		if got := h.excessKinds(); got["connections"] != 1 || len(got) != 1 {
			t.Errorf("%v", got)
		}
	})
}

// A client that closes and opens at once has not had too many connections,
// even if the server learns of the end after the beginning.
func TestReconnectIsNotAnExcess(t *testing.T) {
	inBubble(t, world.Config{Speedup: 1}, func(h *harness) {
		_, host := h.domainOf("outlook", world.Primary)
		c := h.dial(host)
		c.reply()
		for range 20 {
			c.conn.Close()
			c = h.dial(host)
			if said := c.reply(); !strings.HasPrefix(said, "220") {
				t.Fatal(said)
			}
		}
		if rep := h.referee.Report(); rep.Excesses != 0 {
			t.Errorf("%+v", rep.By)
		}
	})
}

func TestNoLimitsAtSpeedupZero(t *testing.T) {
	inBubble(t, world.Config{Speedup: 0}, func(h *harness) {
		d, host := h.domainOf("strict", world.Primary)
		c := h.dial(host)
		c.startTransaction()
		for range 200 {
			if said := c.ask("RCPT TO:<" + h.mailbox(d, "ann", persona.Absent) + ">"); !strings.HasPrefix(said,
				"550 5.1.1") {
				t.Fatal(said)
			}
		}
		if rep := h.referee.Report(); rep.Excesses != 0 || rep.Refused != 200 || rep.Recipients != 200 {
			t.Errorf("%+v", rep)
		}
	})
}

func TestLatency(t *testing.T) {
	inBubble(t, world.Config{Speedup: 1, Latency: "realistic"}, func(h *harness) {
		_, host := h.domainOf("postfix", world.Primary)
		c := h.dial(host)
		start := time.Now()
		c.reply()
		once := time.Since(start)
		c.send("EHLO probe.example", "MAIL FROM:<a@probe.example>", "RSET")
		for range 3 {
			c.reply()
		}
		if once != h.world.Latency(host) || once < 30*time.Millisecond || once > 230*time.Millisecond ||
			time.Since(start) != 2*once {
			t.Errorf("banner after %v, a batch after %v", once, time.Since(start)-once)
		}
	})
}

func TestFixedLatencyIsNotScaled(t *testing.T) {
	inBubble(t, world.Config{Speedup: 0, Latency: "50ms"}, func(h *harness) {
		_, host := h.domainOf("postfix", world.Primary)
		c := h.dial(host)
		start := time.Now()
		c.reply()
		if once := time.Since(start); once != 50*time.Millisecond {
			t.Errorf("banner after %v", once)
		}
	})
}

func TestInputDuringThePauseIsAnswered(t *testing.T) {
	inBubble(t, world.Config{Latency: "50ms"}, func(h *harness) {
		_, host := h.domainOf("postfix", world.Primary)
		c := h.dial(host)
		c.reply()
		start := time.Now()
		c.send("EHLO probe.example")
		time.Sleep(10 * time.Millisecond) // within the pause before its reply
		c.send("RSET")
		c.reply()
		c.reply()
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("both answered after %v", took)
		}
	})
}

func TestOneDomainPerTransaction(t *testing.T) {
	inBubble(t, world.Config{}, func(h *harness) {
		d, host := h.domainOf("google", world.Primary)
		c := h.dial(host)
		c.startTransaction()
		got := []string{c.ask("RCPT TO:<" + h.mailbox(d, "ann", persona.Present) + ">")[:9]}
		for _, e := range h.world.Domains() {
			if e.Persona == d.Persona && e.Name != d.Name && e.Name != "gmail.com" && e.Name != "googlemail.com" {
				got = append(got, c.ask("RCPT TO:<" + h.mailbox(&e, "ann", persona.Present) + ">")[:9])
				break
			}
		}
		if want := []string{"250 2.1.5", "451-4.3.0"}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

func TestBrokenSTARTTLSFailsTheHandshake(t *testing.T) {
	inBubble(t, world.Config{Speedup: 1}, func(h *harness) {
		_, host := h.domainOf("starttls-broken", world.Primary)
		c := h.dial(host)
		c.reply()
		if said := c.ask("EHLO probe.example"); !strings.Contains(said, "STARTTLS") {
			t.Error(said)
		}
		if said := c.startTLS(); !strings.HasPrefix(said, "[") {
			t.Errorf("handshake: %q", said)
		}
	})
}
