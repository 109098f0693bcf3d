package smtpd

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// codesOf are the codes of replies, with a blank between them.
func codesOf(replies []string) string {
	codes := make([]string, len(replies))
	for i, said := range replies {
		codes[i], _, _ = strings.Cut(said, " ")
	}
	return strings.Join(codes, " ")
}

// askStates probes mailboxes in these states (p present, a absent) at a host: one connection, a transaction for each
// word.
func (h *harness) askStates(name, states string) string {
	d, host := h.domainOf(name, world.Primary)
	c := h.dial(host)
	defer c.quit()
	if said := c.startTransaction(); said != "" {
		return said
	}
	var replies []string
	for i, s := range states {
		if s == ' ' {
			c.ask("RSET")
			c.ask("MAIL FROM:<probe@client.example>")
			continue
		}
		m := map[rune]persona.Mailbox{'p': persona.Present, 'a': persona.Absent}[s]
		replies = append(replies, c.ask("RCPT TO:<"+h.mailbox(d, string(rune('a'+i)), m)+">"))
	}
	return codesOf(replies)
}

// TestHostilePersonasTurn: each answers truthfully at first and lies then, to whom and for as long as its persona says.
func TestHostilePersonasTurn(t *testing.T) {
	for _, c := range []struct {
		persona string
		turns   []string // of a connection each
		want    []string
		over    time.Duration // when the lie is over; 0: it ends with the connection
	}{
		{"block-source-3", []string{"papa", "ap", "p"}, []string{"250 550 250 550", "550 550", "550"},
			10 * time.Minute},
		{"block-everyone-3", []string{"papa", "ap", "p"}, []string{"250 550 250 550", "550 550", "550"},
			10 * time.Minute},
		{"block-connection-2", []string{"papap", "pa"}, []string{"250 550 250 550 550", "250 550"}, 0},
		{"quota-source-6", []string{"pppp", "ppp"}, []string{"250 250 250 250", "250 250 550"}, time.Hour},
		{"quota-connection-accepted-1", []string{"app", "p"}, []string{"550 250 550", "250"}, 0},
		{"quota-connection-2", []string{"ppp", "p"}, []string{"250 250 550", "250"}, 0},
		{"silent-source-3", []string{"papa", "ap", "a"}, []string{"250 550 250 550", "550 250", "250"}, time.Hour},
		{"silent-connection-1", []string{"aa", "a"}, []string{"550 250", "550"}, 0},
		{"first-of-connection-1", []string{"ap p", "a"}, []string{"250 550 550", "250"}, 0},
		{"first-of-connection-2", []string{"pp p", "a"}, []string{"250 550 550", "550"}, 0},
		{"first-of-transaction-2", []string{"ap ap"}, []string{"250 550 250 550"}, 0},
		{"unknown-250-1", []string{"pa"}, []string{"250 250"}, 0},
		{"refuses-all", []string{"pa"}, []string{"550 550"}, 0},
	} {
		inBubble(t, world.Config{Speedup: 1, Hostile: true}, func(h *harness) {
			for i, states := range c.turns {
				if got := h.askStates(c.persona, states); got != c.want[i] {
					t.Errorf("%s, connection %d: %s, want %s", c.persona, i+1, got, c.want[i])
				}
			}
			time.Sleep(c.over)
			if c.over > 0 && h.askStates(c.persona, "pa") != "250 550" {
				t.Errorf("%s is not truthful again", c.persona)
			}
		})
	}
}

// TestHosterTurnsOverAllDomains: what one domain's unknown users bring about, all domains of the hoster show.
func TestHosterTurnsOverAllDomains(t *testing.T) {
	inBubble(t, world.Config{Speedup: 1, Hostile: true}, func(h *harness) {
		h.askStates("hoster-silent", "aaaa")
		h.askStates("hoster-silent", "a")
		other := h.world.Domains()
		for _, d := range other {
			if d.Persona.Name != "hoster-silent" {
				continue
			}
			_, host := h.domainOf("hoster-silent", world.Primary)
			c := h.dial(host)
			c.startTransaction()
			if said := c.ask("RCPT TO:<" + h.mailbox(&d, "zoe", persona.Absent) + ">"); said[:3] != "250" {
				t.Errorf("%s: %s", d.Name, said)
			}
			c.quit()
		}
	})
}

// TestSecondReplyComesByItself: a host that replies twice does so in two segments, before or after the client's next
// command.
func TestSecondReplyComesByItself(t *testing.T) {
	for _, name := range []string{"greets-twice", "greets-twice-late", "ehlo-twice", "ehlo-twice-late", "mail-twice",
		"mail-twice-late"} {
		inBubble(t, world.Config{Speedup: 1, Hostile: true}, func(h *harness) {
			_, host := h.domainOf(name, world.Primary)
			c := h.dial(host)
			defer c.quit()
			replies := []string{c.reply()}
			if strings.HasPrefix(name, "greets") {
				replies = append(replies, c.reply())
			}
			for _, command := range []string{"EHLO client.example", "MAIL FROM:<probe@client.example>"} {
				replies = append(replies, c.ask(command))
				if strings.HasPrefix(command, strings.ToUpper(name[:4])) {
					began := time.Now()
					replies = append(replies, c.reply())
					if waited := time.Since(began); strings.HasSuffix(name, "late") != (waited > 0) {
						t.Errorf("%s: the second reply came after %v", name, waited)
					}
				}
			}
			synctest.Wait()
			if len(replies) != 4 {
				t.Errorf("%s: %q", name, replies)
			}
			for _, said := range replies {
				if said[0] != '2' {
					t.Errorf("%s: %s", name, said)
				}
			}
		})
	}
}

// TestBackEndsDisagree: connections to one host are served by two back ends.
func TestBackEndsDisagree(t *testing.T) {
	inBubble(t, world.Config{Speedup: 1, Hostile: true}, func(h *harness) {
		seen := map[string]bool{}
		for range 20 {
			seen[h.askStates("one-accepts-all", "pa")] = true
		}
		if len(seen) != 2 || !seen["250 550"] || !seen["250 250"] {
			t.Errorf("%v", seen)
		}
	})
}
