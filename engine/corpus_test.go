package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// labelMeanings are the meanings of each label of the shared corpus: one each, except that the corpus does not
// distinguish a refused sender from a refused address, and has "other" for what is about the session itself.
var labelMeanings = map[string][]Meaning{
	"no_mailbox":           {NoMailbox},
	"mailbox_full":         {MailboxFull},
	"mailbox_disabled":     {MailboxDisabled},
	"greylisted":           {Greylisted},
	"rate_limited":         {RateLimited},
	"blocked_sender_or_ip": {Blocked, SenderRefused},
	"policy_or_spam":       {PolicyRefused},
	"relay_or_config":      {RelayDenied},
	"syntax":               {SyntaxRefused},
	"temporary":            {Temporary},
	"other":                {MeaningUnknown, ProtocolFault},
}

// TestRepliesOfTheCorpus requires 97 % of the labelled replies right, and none condemned that is not about a mailbox.
func TestRepliesOfTheCorpus(t *testing.T) {
	table := DefaultTable()
	rows, right := 0, 0
	for _, row := range corpusRows(t, "replies.tsv") {
		if len(row) < 7 {
			continue
		}
		stage := StageRcpt
		if row[2] == "session" {
			stage = StageSession
		}
		r, err := ParseReply(stage, strings.ReplaceAll(row[5], `\n`, "\n"))
		require.NoError(t, err, row[5])
		f := table.Classify(table.ProviderOfHint(row[1]), r, SenderIdentity{})
		rows++
		if slices.Contains(labelMeanings[row[6]], f.Meaning) {
			right++
			continue
		}
		t.Logf("%s judged %v by %s: %s [%s]", row[6], f.Meaning, f.Rule, row[5], row[1])
		condemned := f.Meaning == NoMailbox || f.Meaning == MailboxDisabled
		if spoken := row[6] == "no_mailbox" || row[6] == "mailbox_disabled" ||
			row[6] == "mailbox_full"; condemned && !spoken {
			t.Errorf("condemned by %s: %s", f.Rule, row[5])
		}
	}
	t.Logf("%d of %d", right, rows)
	require.GreaterOrEqual(t, float64(right), 0.97*float64(rows))
}

// corpusRows reads a tab-separated file of the shared corpora, without its header; the test is skipped if there is
// none.
func corpusRows(t *testing.T, name string) [][]string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for !isFile(filepath.Join(dir, "go.mod")) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	data, err := os.ReadFile(filepath.Join(dir, "..", "shared", "corpora", name))
	if err != nil {
		t.Skipf("no shared corpus here: %v", err)
	}
	var rows [][]string
	for line := range strings.Lines(string(data)) {
		rows = append(rows, strings.Split(strings.TrimRight(line, "\r\n"), "\t"))
	}
	return rows[1:]
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
