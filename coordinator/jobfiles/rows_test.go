package jobfiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/engine"
)

// loggedRow is one row of a log, for comparison.
type loggedRow struct {
	row      uint32
	kind     Kind
	reason   engine.Reason
	names    Names
	deferral Deferral
}

// readAll reads a log.
func readAll(t require.TestingT, fs vfs.FS, path string) (all []loggedRow, end LogEnd) {
	f, err := fs.Open(path)
	require.NoError(t, err)
	defer f.Close()
	end, err = ReadRows(f, func(g *Group) error {
		got, err := readGroupRows(f, g)
		all = append(all, got...)
		return err
	})
	require.NoError(t, err)
	return all, end
}

// readGroupRows reads the rows of a group; it reads names both by Name and by AppendName.
func readGroupRows(f io.ReaderAt, g *Group) (all []loggedRow, err error) {
	for row, rec := range g.Answers() {
		x := loggedRow{row: row, kind: rec.Kind(), reason: rec.Reason()}
		for i, ref := range rec.Refs() {
			if x.names[i], err = g.Name(ref); err != nil {
				return nil, err
			}
			if again, err := AppendName(nil, f, g.GlobalRef(ref)); err != nil || string(again) != x.names[i] {
				return nil, fmt.Errorf("%q is read as %q: %w", x.names[i], again, err)
			}
		}
		all = append(all, x)
	}
	return all, g.Deferred(func(row uint32, d Deferral) error {
		all = append(all, loggedRow{row: row, deferral: d})
		return nil
	})
}

func answer(row uint32, name string) Row {
	v := engine.VerdictFor(engine.ReasonMailboxNotFound, "rule/"+name, 0, time.UnixMilli(1_700_000_000_000))
	v.ProviderName = name
	return Row{Number: row, Kind: Final, Verdict: &v, MX: "mx." + name, Suggestion: ""}
}

// writeLog writes batches, each with its own sync.
func writeLog(t testing.TB, fs vfs.FS, path string, batches ...[]Row) {
	for _, rows := range batches {
		l, _, err := OpenRows(fs, path, nil, func(*Group) error { return nil })
		require.NoError(t, err)
		l.Start()
		require.NoError(t, l.Add(rows))
		require.NoError(t, l.Close())
	}
}

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	f, err := fs.Open(path)
	require.NoError(t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	return b
}

func writeFile(t testing.TB, fs vfs.FS, path string, b []byte) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(slices.Clone(b))
	require.NoError(t, errors.Join(err, f.Close()))
}

func TestLogRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := vfs.NewMem()
		var want []loggedRow
		for range rapid.IntRange(1, 4).Draw(t, "starts") {
			l, end, err := OpenRows(fs, "rows", nil, func(*Group) error { return nil })
			require.NoError(t, err)
			require.Zero(t, end.Damaged)
			l.Start()
			for range rapid.IntRange(0, 3).Draw(t, "adds") {
				rows, logged := drawRows(t)
				require.NoError(t, l.Add(rows))
				want = append(want, logged...)
			}
			require.NoError(t, l.Close())
		}
		got, _ := readAll(t, fs, "rows")
		require.ElementsMatch(t, want, got)
	})
}

func drawRows(t *rapid.T) (rows []Row, logged []loggedRow) {
	names := rapid.SampledFrom([]string{"", "google", "Ä mx1.example mx2.example", strings.Repeat("x", 300),
		strings.Repeat("y", maxNameBytes)})
	for range rapid.IntRange(1, 30).Draw(t, "rows") {
		r := Row{Number: rapid.Uint32().Draw(t, "row"),
			Kind: Kind(rapid.IntRange(int(None), int(Provisional)).Draw(t, "kind"))}
		if r.Kind != None {
			v := engine.VerdictFor(engine.ReasonMailboxNotFound, names.Draw(t, "rule"), 0,
				time.UnixMilli(1_700_000_000_000))
			v.ProviderName = names.Draw(t, "provider")
			r.Verdict = &v
			r.MX = names.Draw(t, "mx")
			r.Suggestion = names.Draw(t, "suggestion")
			r.Details = names.Draw(t, "details")
			logged = append(logged, loggedRow{row: r.Number, kind: r.Kind, reason: v.Reason,
				names: Names{v.ProviderName, v.Rule, r.MX, r.Suggestion, r.Details}})
		}
		r.Deferred = r.Kind != Final
		if r.Deferred {
			r.Deferral = Deferral{Attempt: rapid.Uint8().Draw(t, "attempt"), Source: names.Draw(t, "source")}
			if rapid.Bool().Draw(t, "due") {
				r.Deferral.Due = time.UnixMilli(rapid.Int64Range(1, 1<<41).Draw(t, "at")).UTC()
			}
			logged = append(logged, loggedRow{row: r.Number, deferral: r.Deferral})
		}
		rows = append(rows, r)
	}
	return rows, logged
}

// TestTruncatedLogKeepsItsFirstGroups cuts a log at every byte. The whole groups before the cut are read without
// damage, and rows can be added.
func TestTruncatedLogKeepsItsFirstGroups(t *testing.T) {
	fs := vfs.NewMem()
	writeLog(t, fs, "rows", []Row{answer(1, "a")}, []Row{answer(2, "b"), answer(3, "a")}, []Row{answer(4, "c")})
	whole := readFile(t, fs, "rows")
	all, _ := readAll(t, fs, "rows")
	require.Len(t, all, 4)
	for n := range len(whole) {
		writeFile(t, fs, "cut", whole[:n])
		got, end := readAll(t, fs, "cut")
		require.Zero(t, end.Damaged, "cut at %d", n)
		require.Equal(t, all[:len(got)], append([]loggedRow{}, got...), "cut at %d", n)
		writeLog(t, fs, "cut", []Row{answer(9, "later")})
		more, end := readAll(t, fs, "cut")
		require.Zero(t, end.Damaged)
		require.Len(t, more, len(got)+1, "cut at %d", n)
	}
}

// TestGroupsBeyondTheEndAreNotRead: of two unsynced groups only the second reached the disk. The next start writes
// another group in place of the first, of the same length.
func TestGroupsBeyondTheEndAreNotRead(t *testing.T) {
	fs := vfs.NewMem()
	writeLog(t, fs, "rows", []Row{answer(1, "a")})
	first := len(readFile(t, fs, "rows"))
	_, end := readAll(t, fs, "rows")
	w := groupWriter{w: io.NewOffsetWriter(openFile(t, fs, "rows"), int64(first)), end: end}
	durable := end.number
	var torn int64
	for _, row := range []uint32{2, 3} {
		g := newGroup()
		r := answer(row, "a")
		g.add(&r)
		require.NoError(t, w.write(g, durable))
		if row == 2 {
			torn = w.end.At
		}
	}
	b := readFile(t, fs, "rows")
	clear(b[first:torn])
	writeFile(t, fs, "rows", b)
	got, end := readAll(t, fs, "rows")
	require.Len(t, got, 1)
	require.Zero(t, end.Damaged, "it was never durable")
	writeLog(t, fs, "rows", []Row{answer(7, "a")})
	require.Len(t, readFile(t, fs, "rows"), len(b), "the third group is still there")
	got, end = readAll(t, fs, "rows")
	require.Equal(t, []uint32{1, 7}, []uint32{got[0].row, got[1].row})
	require.Len(t, got, 2)
	require.Zero(t, end.Damaged)
}

func openFile(t testing.TB, fs vfs.FS, path string) vfs.File {
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// TestFlippedBitDamagesOnlyItsGroup flips each bit of each group but the last. The rows of all other groups are read
// unchanged.
func TestFlippedBitDamagesOnlyItsGroup(t *testing.T) {
	fs := vfs.NewMem()
	writeLog(t, fs, "rows", []Row{answer(1, "a"), answer(2, "b")},
		[]Row{answer(3, "c"), {Number: 4, Deferred: true, Deferral: Deferral{Source: "s"}}}, []Row{answer(5, "d")})
	whole := readFile(t, fs, "rows")
	all, _ := readAll(t, fs, "rows")
	last := 0
	f := openFile(t, fs, "rows")
	_, err := ReadRows(f, func(g *Group) error { last = int(g.At); return nil })
	require.NoError(t, err)
	for bit := range 8 * last {
		b := slices.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		writeFile(t, fs, "flipped", b)
		got, end := readAll(t, fs, "flipped")
		require.Equal(t, 1, end.Damaged, "bit %d", bit)
		require.Less(t, len(got), len(all))
		require.Subset(t, all, got, "bit %d", bit)
		require.Equal(t, uint32(5), got[len(got)-1].row)
	}
}

// TestUnreadableNameIsAnErrorWithItsOffset: a name that the end of the log cuts says where it is, short or long.
func TestUnreadableNameIsAnErrorWithItsOffset(t *testing.T) {
	for _, length := range []uint64{10, 1000} {
		name := append(make([]byte, Align), binary.AppendUvarint(nil, length)...)
		_, err := AppendName(nil, bytes.NewReader(append(name, "mx"...)), 1)
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, fmt.Sprintf("rows log: no name at %d: ", Align))
	}
}

func TestLogOfAnotherVersionIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	writeFile(t, fs, "rows", []byte("prbrow\x03\xfc and what it has more"))
	_, _, err := OpenRows(fs, "rows", nil, func(*Group) error { return nil })
	require.ErrorIs(t, err, ErrVersion)
}

func TestCopyOmitsRemovedNames(t *testing.T) {
	fs := vfs.NewMem()
	var rows []Row
	for i := range uint32(3 * groupEntries) {
		rows = append(rows, answer(i, fmt.Sprint("name", rand.N(100))))
	}
	rows[7].Suggestion = "someone@secret.example"
	rows[9].Deferred, rows[9].Deferral = true, Deferral{Attempt: 3, Source: "s1"}
	writeLog(t, fs, "rows", rows)
	want, _ := readAll(t, fs, "rows")
	to, err := fs.Create("copy", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	w := NewRowsWriter(to)
	_, err = ReadRows(openFile(t, fs, "rows"), func(g *Group) error {
		return w.AddGroup(g, func(s string) string {
			if s == "someone@secret.example" {
				return ""
			}
			return s
		})
	})
	require.NoError(t, err)
	made, err := w.Finish()
	require.NoError(t, errors.Join(err, to.Close()))
	got, end := readAll(t, fs, "copy")
	require.Equal(t, made, end)
	i := slices.IndexFunc(want, func(x loggedRow) bool { return x.row == 7 })
	want[i].names[NameSuggestion] = ""
	require.ElementsMatch(t, want, got)
	require.NotContains(t, string(readFile(t, fs, "copy")), "secret")
}

// TestRowsShareOneSync checks that rows wait for each other's sync as long as after says.
func TestRowsShareOneSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, err := OpenRows(vfs.NewMem(), "rows", func() time.Duration { return time.Second },
			func(*Group) error { return nil })
		require.NoError(t, err)
		l.Start()
		require.NoError(t, l.Add([]Row{answer(1, "a")}))
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		require.False(t, l.Wrote())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.True(t, l.Wrote())
		require.NoError(t, l.Close())
	})
}

func FuzzReadRows(f *testing.F) {
	g := newGroup()
	r := answer(1, "a")
	g.add(&r)
	b, sum := g.appendTo(nil, 1, 0, 0)
	b, _ = g.appendTo(b, 2, sum, 1)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := vfs.NewMem()
		writeFile(t, fs, "rows", b)
		file := openFile(t, fs, "rows")
		_, err := ReadRows(file, func(g *Group) error {
			_, err := readGroupRows(file, g)
			return err
		})
		if err != nil && !errors.Is(err, ErrDamaged) {
			require.ErrorIs(t, err, ErrVersion)
		}
	})
}
