package results

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/coordinator/csvfile"
	"probity/engine"
)

// TestCellsEqualTheEncoderOfCSV compares the fast writer of our columns with the CSV writer, which scans each cell.
func TestCellsEqualTheEncoderOfCSV(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &csvfile.Dialect{Delimiter: rapid.SampledFrom([]byte(",;\t|")).Draw(t, "delimiter")}
		names := nameReader{dialect: d}
		text := rapid.SampledFrom([]string{"", "google", "mx1.example mx2.example", "=1+1", "a,b", "a;b|c",
			"say \"x\"@example.com", "-x@example.com", "two\nlines"})
		reason := engine.Reason(rapid.IntRange(0, int(engine.ReasonInternalError)).Draw(t, "reason"))
		ans := answer{
			v: engine.VerdictFor(reason, "rule", engine.Flags(rapid.Byte().Draw(t, "flags")),
				time.Unix(rapid.Int64Range(-1e9, 4e9).Draw(t, "time"), 5).UTC()),
			provider: names.newNameCell(text.Draw(t, "provider")), mx: names.newNameCell(text.Draw(t, "mx")),
			suggestion: names.newNameCell(text.Draw(t, "suggestion")),
		}
		v, word := &ans.v, map[bool]string{true: "true", false: "false"}
		var want []byte
		for _, cell := range []string{v.Status.String(), strconv.Itoa(int(v.Score)), v.Reason.String(),
			word[v.SyntaxValid()], word[v.DomainExists()],
			word[v.SMTPValid], word[v.Flags.Has(engine.FlagDisposable)], word[v.Flags.Has(engine.FlagRole)],
			word[v.Flags.Has(engine.FlagFree)],
			ans.provider.text, ans.mx.text, ans.suggestion.text, word[v.FromCache], v.VerifiedAt.Format(time.RFC3339)} {
			want = d.AppendCell(append(want, d.Delimiter), cell)
		}
		written := cells{delimiter: d.Delimiter}
		require.Equal(t, string(want), string(written.append(nil, &ans)))
		require.Equal(t, string(want), string(written.append(nil, &ans)), "a second time")
	})
}

func BenchmarkCells(b *testing.B) {
	d := &csvfile.Dialect{Delimiter: ','}
	names := nameReader{dialect: d}
	ans := answer{v: engine.VerdictFor(engine.ReasonMailboxNotFound, "rule", 0, time.Unix(1.7e9, 0)),
		provider: names.newNameCell("google"), mx: names.newNameCell("mx1.example mx2.example")}
	written := cells{delimiter: d.Delimiter}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = written.append(out[:0], &ans)
	}
}
