package engine

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bars, in per cent. They may only fall.
const (
	maxHeldOutCondemned = 5.0  // of the replies to spare
	maxHeldOutMissed    = 15.0 // of the replies to condemn
)

// heldOutReply is a reply of a held-out set, and whether it says that the mailbox is gone or was never there.
type heldOutReply struct {
	language string
	condemn  bool
	reply    string
}

// heldOutCount counts what became of replies.
type heldOutCount struct {
	spare, condemned int // replies to spare, and those of them that were condemned
	condemn, missed  int // replies to condemn, and those of them that were not
}

// TestHeldOutReplies judges replies that no rule was written from: it shows what the rules make of texts that are new
// to them. So that they stay new, it prints figures only, no text and no line: an author of rules runs it blind. Set a
// is for use while rules are written, sets b and c for the end of that work: their figures are printed only where
// PROBITY_HELDOUT is 1. Set b was judged first at commit 1a9b181, set c at 76a112d0.
func TestHeldOutReplies(t *testing.T) {
	t.Run("a", func(t *testing.T) {
		counts := judgeHeldOut(t, readReplies(t, "heldout_a"))
		logHeldOut(t, counts)
		requireHeldOut(t, counts, maxHeldOutCondemned)
	})
	for _, name := range []string{"b", "c"} {
		t.Run(name, func(t *testing.T) {
			counts := judgeHeldOut(t, readReplies(t, "heldout_"+name))
			if os.Getenv("PROBITY_HELDOUT") == "1" {
				logHeldOut(t, counts)
			}
			requireHeldOut(t, counts, maxHeldOutCondemned)
		})
	}
}

// TestSentencesAreReadByTheirGrammar judges the replies that the rules were written with, and their neighbours.
func TestSentencesAreReadByTheirGrammar(t *testing.T) {
	table := DefaultTable()
	route := table.NewRoute([]MX{{Host: "mx.unknown-receiver.example", Preference: 10}})
	replies := readReplies(t, "sentences")
	require.Greater(t, len(replies), 390)
	for _, r := range replies {
		require.Equal(t, r.condemn, heldOutIsInvalid(t, table, &route, r.reply), "%s: %s", r.language, r.reply)
	}
}

// TestHeldOutSetsAreBroad requires of each set what makes their figures mean something: size, languages, as many
// replies to spare as to condemn, and no reply twice.
func TestHeldOutSetsAreBroad(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"a", "b", "c"} {
		replies := readReplies(t, "heldout_"+name)
		languages := map[string]int{}
		condemn := 0
		for _, r := range replies {
			require.False(t, seen[r.reply], "set %s, language %s: a reply that was there before", name, r.language)
			seen[r.reply] = true
			languages[r.language]++
			if r.condemn {
				condemn++
			}
		}
		require.GreaterOrEqual(t, len(replies), 340, "replies of set %s", name)
		require.GreaterOrEqual(t, len(languages), 24, "languages of set %s", name)
		require.LessOrEqual(t, 100*languages["en"], 35*len(replies), "English replies of set %s", name)
		require.Equal(t, len(replies), 2*condemn, "replies to condemn are half of set %s", name)
	}
}

func readReplies(t *testing.T, name string) []heldOutReply {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".tsv")
	require.NoError(t, err)
	var replies []heldOutReply
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
		require.Equal(t, 3, len(fields), "fields of reply %d of %s", len(replies)+1, name)
		label := fields[1]
		require.Contains(t, []string{"spare", "condemn"}, label, "label of reply %d of %s", len(replies)+1, name)
		reply := strings.ReplaceAll(fields[2], `\n`, "\n")
		replies = append(replies, heldOutReply{language: fields[0], condemn: label == "condemn", reply: reply})
	}
	return replies
}

// judgeHeldOut judges the replies and counts by language. The count of no language is that of all.
func judgeHeldOut(t *testing.T, replies []heldOutReply) map[string]heldOutCount {
	t.Helper()
	table := DefaultTable()
	route := table.NewRoute([]MX{{Host: "mx.unknown-receiver.example", Preference: 10}})
	require.Same(t, table.Unknown, route.Provider)
	counts := map[string]heldOutCount{}
	for _, r := range replies {
		invalid := heldOutIsInvalid(t, table, &route, r.reply)
		for _, of := range []string{r.language, ""} {
			counts[of] = counts[of].with(r.condemn, invalid)
		}
	}
	return counts
}

func logHeldOut(t *testing.T, counts map[string]heldOutCount) {
	t.Helper()
	all := counts[""]
	condemned := percent(all.condemned, all.spare)
	missed := percent(all.missed, all.condemn)
	t.Logf("%d replies: %.1f %% of %d wrongly condemned, %.1f %% of %d missed",
		all.spare+all.condemn, condemned, all.spare, missed, all.condemn)
	for _, language := range slices.Sorted(maps.Keys(counts)) {
		if language == "" {
			continue
		}
		of := counts[language]
		t.Logf("%-8s wrongly condemned %2d of %2d, missed %2d of %2d",
			language, of.condemned, of.spare, of.missed, of.condemn)
	}
}

func requireHeldOut(t *testing.T, counts map[string]heldOutCount, maxCondemned float64) {
	t.Helper()
	all := counts[""]
	condemned := percent(all.condemned, all.spare)
	missed := percent(all.missed, all.condemn)
	require.LessOrEqual(t, condemned, maxCondemned, "wrongly condemned, in per cent of %d", all.spare)
	require.LessOrEqual(t, missed, maxHeldOutMissed, "missed, in per cent of %d", all.condemn)
}

// heldOutIsInvalid reports whether a target that gets this one reply at RCPT, at its last attempt and from a receiver
// that the table does not know, ends as INVALID.
func heldOutIsInvalid(t *testing.T, table *Table, route *Route, raw string) bool {
	t.Helper()
	// The sets quote these addresses as those of the client.
	us := SenderIdentity{MailFrom: "check@prober.example", EHLO: "prober.example",
		Sources: []string{"192.0.2.14", "198.51.100.7", "203.0.113.9"}}
	reply, err := ParseReply(StageRcpt, raw)
	if err != nil {
		t.Fatal("a reply does not parse")
	}
	target, err := Parse("target@unknown-receiver.example")
	require.NoError(t, err)
	ev := Evidence{Address: target, Route: route, Attempts: len(table.Schedule)}
	ev.Append(Sighting{Subject: SubjectTarget, Event: EventReply, Host: route.Hosts[0], At: noon, Conn: 1,
		Reply: reply, Finding: table.Classify(route.Provider, reply, us)})
	return Judge(&ev, Policy{Schedule: table.Schedule}, noon).Status == Invalid
}

// with is the count and one more reply: whether it is one to condemn, and whether it was condemned.
func (h heldOutCount) with(condemn, invalid bool) heldOutCount {
	switch {
	case condemn && invalid:
		h.condemn++
	case condemn:
		h.condemn++
		h.missed++
	case invalid:
		h.spare++
		h.condemned++
	default:
		h.spare++
	}
	return h
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(of) }
