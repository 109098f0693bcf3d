package jobfiles

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/addresses"
)

// namesOf reads the names of a log.
type namesOf struct{ io.ReaderAt }

func (f namesOf) TextOf(_ int, ref uint32) (string, error) {
	text, err := AppendName(nil, f, ref)
	return string(text), err
}

// TestCopiedRecordsKeepTheirNames copies rows of several groups with more names than are remembered. The set of their
// addresses follows the log.
func TestCopiedRecordsKeepTheirNames(t *testing.T) {
	fs := vfs.NewMem()
	var rows []Row
	for i := range 3 * groupEntries {
		r := answer(uint32(i), fmt.Sprint(i%20))
		if i%2 == 0 {
			r.MX = fmt.Sprint("mx.", i%(3*copiedNames))
		}
		if i%100 == 0 {
			r.Suggestion = fmt.Sprintf("u%d@gmail.com", i)
		}
		rows = append(rows, r)
	}
	writeLog(t, fs, "rows", rows)
	want, _ := readAll(t, fs, "rows")
	require.Len(t, want, len(rows))

	f, err := fs.Open("rows")
	require.NoError(t, err)
	defer f.Close()
	const omitted = 100 // so that groups of the copy begin elsewhere
	var copied bytes.Buffer
	w := NewRowsWriter(&copied)
	_, err = ReadRows(f, func(g *Group) error {
		for row, rec := range g.Answers() {
			if row < omitted {
				continue
			}
			refs := rec.Refs()
			for i := range refs {
				refs[i] = g.GlobalRef(refs[i])
			}
			rec.SetRefs(refs)
			if err := w.CopyRecord(row, rec, namesOf{f}); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	end, err := w.Finish()
	require.NoError(t, err)
	require.NoError(t, w.WriteAddresses())
	writeFile(t, fs, "copy", copied.Bytes()[:end.At])
	got, _ := readAll(t, fs, "copy")
	require.Equal(t, want[omitted:], got)
	set := addresses.OpenSet(bytes.NewReader(copied.Bytes()), end.At, int64(copied.Len()))
	require.True(t, set.MayContain("u300@gmail.com"))
	require.False(t, set.MayContain("u301@gmail.com"))
}

// TestAnswersWithTooManyAddressesHaveNoSet: not all of them would be in it.
func TestAnswersWithTooManyAddressesHaveNoSet(t *testing.T) {
	var log bytes.Buffer
	w := NewRowsWriter(&log)
	for i := range maxNameAddresses + 1 {
		r := answer(uint32(i), "x")
		rec := NewRecord(r.Kind, r.Verdict)
		w.group.addRecord(r.Number, &rec, Names{NameSuggestion: fmt.Sprintf("u%d@gmail.com", i)})
		require.NoError(t, w.flushFull())
	}
	end, err := w.Finish()
	require.NoError(t, err)
	require.NoError(t, w.WriteAddresses())
	require.EqualValues(t, log.Len(), end.At)
}
