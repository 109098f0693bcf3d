package smtpd

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

var rewrite = flag.Bool("rewrite", false, "write the servers' side of the dialogues anew")

// TestDialogues plays the client's side of each file in testdata/dialogues and
// compares what the server says. The first line names the persona; {present ann}
// and the like in a client's line stand for that mailbox.
func TestDialogues(t *testing.T) {
	files, err := filepath.Glob("testdata/dialogues/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dialogues: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			inBubble(t, world.Config{Speedup: 1}, func(h *harness) { got = h.playDialogue(string(raw)) })
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(raw) {
				t.Errorf("the server now says:\n%s", got)
			}
		})
	}
}

var mailboxWord = regexp.MustCompile(`\{(absent|present|full|disabled|moved) ([a-z]+)\}`)

// playDialogue plays the dialogue and returns its transcript.
func (h *harness) playDialogue(script string) string {
	lines := strings.Split(script, "\n")
	kind := strings.TrimPrefix(lines[0], "persona: ")
	d, host := h.domainOf(kind, world.Primary)
	c := h.dial(host)
	var out strings.Builder
	out.WriteString(lines[0] + "\n")
	note := func(said string) {
		for line := range strings.SplitSeq(said, "\n") {
			out.WriteString("S: " + line + "\n")
		}
	}
	note(c.reply())
	for _, line := range lines[1:] {
		said, ok := strings.CutPrefix(line, "C: ")
		if !ok {
			continue
		}
		out.WriteString(line + "\n")
		note(c.ask(mailboxWord.ReplaceAllStringFunc(said, func(word string) string {
			state, name, _ := strings.Cut(strings.Trim(word, "{}"), " ")
			return h.mailbox(d, name, mailboxState(state))
		})))
		if said == "STARTTLS" {
			c.secure()
		}
	}
	return out.String()
}

func mailboxState(name string) persona.Mailbox {
	return map[string]persona.Mailbox{"absent": persona.Absent, "present": persona.Present, "full": persona.Full,
		"disabled": persona.Disabled, "moved": persona.Moved}[name]
}
