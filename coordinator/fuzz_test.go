package coordinator

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"probity/engine"
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

func FuzzUnpackChunk(f *testing.F) {
	p := &chunkBuilder{}
	p.add(&chunkRow{Number: 1, Route: &rowRoute{Route: table().ImplicitRoute("x.example")}, Mailbox: "a@x.example"})
	f.Add(p.appendChunk(nil, p.rows, rand.New(rand.NewPCG(1, 2))))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = unpackChunk(b, table(), func(uint32) bool { return false }) })
}

func TestChunkRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rowRoutes := []*rowRoute{
			{Route: table().NewRoute([]engine.MX{{Preference: 1, Host: "mx2.x.example"}, {Preference: 2, Host: "mx1.x.example"}}), mx: "mx1.x.example mx2.x.example"},
			{Route: table().ImplicitRoute("y.example")},
		}
		suggestions := []string{"", "u@y.example", ""}
		var p chunkBuilder
		want := map[uint32]chunkRow{}
		for i := range rapid.IntRange(0, 50).Draw(t, "rows") {
			a := chunkRow{Number: uint32(i * 3), Attempt: rapid.Uint8().Draw(t, "attempt"), Flags: engine.FlagRole, Suggestion: suggestions[i%len(suggestions)],
				Route: rowRoutes[rapid.IntRange(0, 1).Draw(t, "via")], Mailbox: "u@x.example"}
			want[a.Number] = a
			p.add(&a)
		}
		got, err := unpackChunk(p.appendChunk(nil, p.rows, rand.New(rand.NewPCG(1, 2))), table(), func(row uint32) bool { return row == 0 })
		if err != nil {
			t.Fatal(err)
		}
		if got.len() != max(0, len(want)-1) {
			t.Fatalf("%d rows, want %d", got.len(), len(want)-1)
		}
		for i := range got.len() {
			a := got.rowAt(i)
			w := want[a.Number]
			if a.Route.Key != w.Route.Key || a.Route.mx != w.Route.mx || a.Route.Fact != w.Route.Fact || a.Attempt != w.Attempt || a.Suggestion != w.Suggestion || a.Flags != w.Flags || a.Mailbox != w.Mailbox {
				t.Fatalf("row %d: got %+v, want %+v", a.Number, a, w)
			}
		}
	})
}
