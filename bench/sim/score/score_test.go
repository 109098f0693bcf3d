package score

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"probity/bench/sim/world"
)

const truthFile = `id,email,notes,expected_status,expected_reason
1,a@x.example,,VALID,
2,b@x.example,"one, two",INVALID,mailbox_not_found
3,c@x.example,,VALID|UNKNOWN,|greylisted
4,,blank,,
5,d@x.example,,RISKY,catch_all
`

// TestStatusesAloneAreScored: by address, whatever the order; reasons and blank rows do not count.
func TestStatusesAloneAreScored(t *testing.T) {
	statuses := map[string]string{"a@x.example": "INVALID", "b@x.example": "VALID", "c@x.example": "UNKNOWN"}
	got, err := CompareStatuses(strings.NewReader(truthFile), func(email string) (string, bool) {
		status, ok := statuses[email]
		return status, ok
	})
	require.NoError(t, err)
	require.Equal(t, []int{4, 1, 1, 0, 0, 2, 1}, []int{got.Rows, got.FalseValid, got.FalseInvalid,
		got.UnexpectedUnknown, got.WrongReason, got.WrongStatus,
		got.MissingRows})
	require.Equal(t, map[string]map[string]int{"VALID": {"INVALID": 1}, "INVALID": {"VALID": 1},
		"UNKNOWN": {"UNKNOWN": 1}}, got.Confusion)
	_, err = CompareStatuses(strings.NewReader("email,x\n"), nil)
	require.ErrorContains(t, err, StatusColumn)
}

func TestScore(t *testing.T) {
	result := func(rows ...string) string {
		return "id,email,notes,verify_status,verify_score,verify_reason\n" + strings.Join(rows, "\n") + "\n"
	}
	r := []string{`1,a@x.example,,VALID,98,`, `2,b@x.example,"one, two",INVALID,3,mailbox_not_found`,
		`3,c@x.example,,UNKNOWN,50,greylisted`, `4,,blank,,,`, `5,d@x.example,,RISKY,60,catch_all`}
	with := func(i int, row string) []string {
		rows := append([]string(nil), r...)
		rows[i] = row
		return rows
	}
	for what, tc := range map[string]struct {
		rows []string
		want Scores
	}{
		"perfect":       {r, Scores{Rows: 5}},
		"other allowed": {with(2, `3,c@x.example,,VALID,98,`), Scores{Rows: 5}},
		"false valid": {with(1, `2,b@x.example,"one, two",VALID,98,`),
			Scores{Rows: 5, FalseValid: 1, WrongStatus: 1}},
		"false invalid": {with(4, `5,d@x.example,,INVALID,3,mailbox_not_found`),
			Scores{Rows: 5, FalseInvalid: 1, WrongStatus: 1}},
		"unexpected unknown": {with(0, `1,a@x.example,,UNKNOWN,40,timeout`),
			Scores{Rows: 5, UnexpectedUnknown: 1, WrongStatus: 1}},
		"wrong reason":    {with(2, `3,c@x.example,,UNKNOWN,40,timeout`), Scores{Rows: 5, WrongReason: 1}},
		"risky for valid": {with(0, `1,a@x.example,,RISKY,60,catch_all`), Scores{Rows: 5, WrongStatus: 1}},
		"verdict for blank": {with(3, `4,,blank,INVALID,0,invalid_syntax`),
			Scores{Rows: 5, FalseInvalid: 1, WrongStatus: 1}},
		"missing": {r[:3], Scores{Rows: 5, MissingRows: 2}},
		"extra":   {append(r[:5:5], r[0]), Scores{Rows: 5, ExtraRows: 1}},
		"order":   {[]string{r[1], r[0], r[2], r[3], r[4]}, Scores{Rows: 5, OrderErrors: 2}},
		"changed cell": {with(1, `2,b@x.example,"one,two",INVALID,3,mailbox_not_found`),
			Scores{Rows: 5, ChangedCells: 1}},
	} {
		got, err := Compare(strings.NewReader(truthFile), strings.NewReader(result(tc.rows...)))
		require.NoError(t, err, what)
		got.Confusion, got.Wrong = nil, nil
		require.Equal(t, tc.want, got, what)
	}
}

func TestScoreConfusion(t *testing.T) {
	got, err := Compare(strings.NewReader(truthFile),
		strings.NewReader("id,email,notes,verify_status,verify_reason,verify_status_2,verify_reason_2\n"+
			"1,a@x.example,,x,y,VALID,\n3,c@x.example,,,,UNKNOWN,greylisted\n3,c@x.example,,,,UNKNOWN,greylisted\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]map[string]int{"VALID": {"VALID": 1}, "UNKNOWN": {"UNKNOWN": 1}}, got.Confusion)
	require.Equal(t, 1, got.OrderErrors)
}

func TestScoreRejectsOtherFiles(t *testing.T) {
	for _, tc := range [][3]string{{"", "", "truth: "}, {truthFile, "", "result: "},
		{"a,b\n", "a,b\n", "give the CSV file that sim truth printed"},
		{truthFile, "id,email,notes\n", "result: no column named verify_status; give a CSV file that verify wrote"}} {
		_, err := Compare(strings.NewReader(tc[0]), strings.NewReader(tc[1]))
		require.ErrorContains(t, err, tc[2])
	}
}

// A list's own truth, given as verdicts, is a perfect result; compressed or not.
func TestTruthScoresPerfectly(t *testing.T) {
	w := world.New(world.Config{})
	list := listOf(t, w, 3000, 1)
	var truth bytes.Buffer
	require.NoError(t, WriteTruth(&truth, w, bytes.NewReader(list)))
	result := bytes.Replace(truth.Bytes(), []byte(StatusColumn+","+ReasonColumn), []byte("verify_status,verify_reason"),
		1)
	for _, pack := range []func([]byte) []byte{plain, gzipped, zstdPacked} {
		got, err := Compare(bytes.NewReader(truth.Bytes()), bytes.NewReader(pack(firstOutcomes(t, result))))
		require.NoError(t, err)
		got.Confusion = nil
		require.Equal(t, Scores{Rows: 3000, Wrong: map[string]int{}}, got)
	}
}

// firstOutcomes keeps the first of several outcomes in the last two cells.
func firstOutcomes(t *testing.T, result []byte) []byte {
	r, err := openRecords(bytes.NewReader(result))
	require.NoError(t, err)
	var out []byte
	for err = r.next(); err != io.EOF; err = r.next() {
		require.NoError(t, err)
		n := len(r.cells)
		tail := len(r.cells[n-2]) + len(r.cells[n-1]) + 1
		status, _, _ := bytes.Cut(r.cells[n-2], []byte("|"))
		reason, _, _ := bytes.Cut(r.cells[n-1], []byte("|"))
		out = append(out, r.body()[:len(r.body())-tail]...)
		out = append(append(append(append(out, status...), ','), reason...), '\n')
	}
	return out
}

func plain(b []byte) []byte { return b }

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func zstdPacked(b []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(b, nil)
}

// For any bytes, records end, and their raw bytes are the file.
func FuzzRecords(f *testing.F) {
	for _, seed := range []string{"", "a,b\n", "\"a\nb\",c", "a\"b,c\r\n", "\"", "\"a\"b,c\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if bytes.HasPrefix(in, []byte{0x1f, 0x8b}) || bytes.HasPrefix(in, []byte{0x28, 0xb5}) {
			return
		}
		r, err := openRecords(bytes.NewReader(in))
		require.NoError(t, err)
		var whole []byte
		for err = r.next(); err == nil; err = r.next() {
			whole = append(whole, r.raw...)
		}
		require.ErrorIs(t, err, io.EOF)
		require.True(t, bytes.Equal(in, whole))
	})
}

func BenchmarkScore(b *testing.B) {
	w := world.New(world.Config{})
	var truth bytes.Buffer
	require.NoError(b, WriteTruth(&truth, w, bytes.NewReader(listOf(b, w, b.N, 1))))
	result := bytes.Replace(truth.Bytes(), []byte(StatusColumn+","+ReasonColumn), []byte("verify_status,verify_reason"),
		1)
	b.ResetTimer()
	_, err := Compare(bytes.NewReader(truth.Bytes()), bytes.NewReader(result))
	require.NoError(b, err)
}
