package coordinator

import (
	"encoding/binary"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"probity/coordinator/jobfiles"
	"probity/internal/wholefile"
	"probity/store"
)

// FuzzOldUpload migrates an upload of an older version, with a valid checksum of the index.
func FuzzOldUpload(f *testing.F) {
	pack, err := zstd.NewWriter(nil)
	require.NoError(f, err)
	text := []byte("a@x.example\nb@x.example\na@x.example\n")
	spool := pack.EncodeAll(text, nil)
	f.Add(spool, oldIndexOf("email\n", oldFrame{raw: len(text), packed: len(spool), rows: 3}), []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0})
	w := newTestEnv(f, vfs.NewMem())
	j := w.accept(f, "email\n"+string(text))
	f.Fuzz(func(t *testing.T, spool, index, dups []byte) {
		_, err := w.store.UpdateJob(j.ID, func(j *store.Job) error {
			j.Upload = ""
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, w.fs.RemoveAll(w.c.files.Path(j.ID)))
		require.NoError(t, w.fs.MkdirAll(w.c.files.Path(j.ID), 0o700))
		index = binary.LittleEndian.AppendUint64(index, xxh3.Hash(index))
		for name, b := range map[string][]byte{oldFileSpool: spool, oldFileIndex: index, oldFileDups: dups} {
			require.NoError(t, wholefile.Write(w.fs, w.c.files.Path(j.ID, name), b))
		}
		if _, err := w.c.files.MigrateUpload(&store.Job{ID: j.ID}); err != nil {
			require.ErrorIs(t, err, jobfiles.ErrDamaged)
		}
	})
}

type oldFrame struct{ raw, packed, rows int }

// oldIndexOf returns an index as an older version wrote it, without the checksum.
func oldIndexOf(preamble string, frames ...oldFrame) []byte {
	le := binary.LittleEndian
	b := append(le.AppendUint32([]byte("prbidx01"), uint32(len(preamble))), preamble...)
	b = le.AppendUint32(b, uint32(len(frames)))
	at, row := 0, 0
	for _, f := range frames {
		b = le.AppendUint64(le.AppendUint64(b, uint64(at)), uint64(row+2))
		for _, n := range [...]int{f.packed, f.raw, row, f.rows} {
			b = le.AppendUint32(b, uint32(n))
		}
		at, row = at+f.packed, row+f.rows
	}
	return b
}
