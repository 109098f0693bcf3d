package smtpd

import (
	"strings"
	"testing"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// askMany probes n mailboxes in one state at a host, five on each connection, and returns the first line of each reply.
func (h *harness) askMany(name string, n int, m persona.Mailbox) (replies []string) {
	d, host := h.domainOf(name, world.Primary)
	var addresses []string // asked in turn
	for i := range 26 {
		addresses = append(addresses, h.mailbox(d, string(rune('a'+i)), m))
	}
	for len(replies) < n {
		c := h.dial(host)
		if said := c.startTransaction(); said != "" {
			return append(replies, said)
		}
		for range min(5, n-len(replies)) {
			said := c.ask("RCPT TO:<" + addresses[len(replies)%len(addresses)] + ">")
			replies = append(replies, said)
			if strings.HasPrefix(said, "421") {
				break
			}
		}
		c.quit()
		time.Sleep(3 * time.Second) // a hundred a minute
	}
	return replies
}

// firstDifferent is the place of the first reply that does not begin like the one before.
func firstDifferent(replies []string) (int, string) {
	for i := 1; i < len(replies); i++ {
		if replies[i][:3] != replies[0][:3] {
			return i, replies[i][:3]
		}
	}
	return -1, ""
}

// TestThrottlersStartAndStop: each tolerates a source for a while, then throttles it, and recovers in the end.
func TestThrottlersStartAndStop(t *testing.T) {
	for _, c := range []struct {
		persona       string
		asks          persona.Mailbox
		n, at         int
		says          string
		recoversAfter time.Duration
	}{
		{"limit-falls", persona.Present, 1050, 999 + 12, "450", 31 * time.Minute},
		{"cuts-421", persona.Absent, 5, 3, "421", 0},
		{"blocks-25", persona.Absent, 30, 25, "554", 61 * time.Minute},
		{"silent-past", persona.Absent, 20, 12, "250", 121 * time.Minute},
		{"greylist-source", persona.Present, 3, -1, "", 10 * time.Minute},
	} {
		inBubble(t, world.Config{Speedup: 1, Throttlers: true}, func(h *harness) {
			replies := h.askMany(c.persona, c.n, c.asks)
			if at, says := firstDifferent(replies); at != c.at || says != c.says {
				t.Errorf("%s: reply %d was %s, want %d %s", c.persona, at, says, c.at, c.says)
			}
			time.Sleep(c.recoversAfter)
			want := map[persona.Mailbox]string{persona.Present: "250", persona.Absent: "550"}[c.asks]
			if again := h.askMany(c.persona, 1, c.asks)[0]; again[:3] != want {
				t.Errorf("%s does not forgive: %s", c.persona, again)
			}
		})
	}
}

func TestDelayGrowsAndRecovers(t *testing.T) {
	inBubble(t, world.Config{Speedup: 1, Throttlers: true}, func(h *harness) {
		ask := func() time.Duration {
			began := time.Now()
			h.askMany("stickier", 1, persona.Absent)
			return time.Since(began)
		}
		first := ask()
		for range 8 {
			ask()
		}
		if slow := ask(); slow < first+20*time.Second {
			t.Errorf("first %v, then %v", first, slow)
		}
		time.Sleep(16 * time.Minute)
		if again := ask(); again > first+time.Second {
			t.Errorf("first %v, at last %v", first, again)
		}
	})
}

// TestIgnoredWarningsEndInABlock: a client that ignores the warnings is blocked, and the referee says so.
func TestIgnoredWarningsEndInABlock(t *testing.T) {
	inBubble(t, world.Config{Speedup: 1, Throttlers: true}, func(h *harness) {
		h.askMany("limit-falls", 1100, persona.Present)
		if r := h.referee.Report(); r.Blocks != 1 || r.Excesses != 0 {
			t.Errorf("%d blocks, excesses %v", r.Blocks, r.By)
		}
	})
}
