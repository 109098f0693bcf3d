package coordinator

import (
	"encoding/binary"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"probity/internal/wholefile"
	"probity/store"
)

func FuzzOldLog(f *testing.F) {
	f.Add([]byte(oldLogMagic+"\x01\x00\x00\x00"), []byte("prbnam01\x03abc"))
	f.Fuzz(func(t *testing.T, log, names []byte) {
		fs := vfs.NewMem()
		require.NoError(t, wholefile.Write(fs, oldFileLog, log))
		require.NoError(t, wholefile.Write(fs, oldFileNames, names))
		if err := New(Config{FS: fs}).migrateLog(""); err != nil {
			require.ErrorIs(t, err, errDamaged)
		}
	})
}

// FuzzOldUpload migrates an upload of an older version, with a valid checksum of the index.
func FuzzOldUpload(f *testing.F) {
	pack := newEncoder(1)
	text := []byte("a@x.example\nb@x.example\na@x.example\n")
	spool := pack.EncodeAll(text, nil)
	f.Add(spool, oldIndexOf("email\n", oldFrame{raw: len(text), packed: len(spool), rows: 3}), []byte{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0})
	fs := vfs.NewMem()
	c := New(Config{FS: fs})
	f.Fuzz(func(t *testing.T, spool, index, dups []byte) {
		require.NoError(t, fs.MkdirAll("jobs/j", 0o700))
		require.NoError(t, wholefile.Write(fs, "jobs/j/"+oldFileSpool, spool))
		require.NoError(t, wholefile.Write(fs, "jobs/j/"+oldFileIndex, binary.LittleEndian.AppendUint64(index, xxh3.Hash(index))))
		require.NoError(t, wholefile.Write(fs, "jobs/j/"+oldFileDups, dups))
		if _, err := c.rewriteOldUpload(&store.Job{ID: "j", Rows: 3, Duplicates: 1}, "jobs/j"); err != nil {
			require.ErrorIs(t, err, errDamaged)
		}
		require.NoError(t, fs.RemoveAll("jobs/j"))
	})
}

type oldFrame struct{ raw, packed, rows int }

// oldIndexOf returns an index as an older version wrote it, without the checksum.
func oldIndexOf(preamble string, frames ...oldFrame) []byte {
	le := binary.LittleEndian
	b := append(le.AppendUint32([]byte(oldIndexMagic), uint32(len(preamble))), preamble...)
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
