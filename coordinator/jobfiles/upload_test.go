package jobfiles

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/coordinator/addresses"
)

// testUpload is the content of an upload.
type testUpload struct {
	preamble  string
	frames    []string
	rows      []int // of each frame
	firstRows []uint32
	addresses []string // nil: there is no set of them
}

func newZstd(t testing.TB) (*zstd.Encoder, *zstd.Decoder) {
	pack, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<20))
	require.NoError(t, err)
	t.Cleanup(unpack.Close)
	return pack, unpack
}

// write writes an upload.
func (s *testUpload) write(o *Folder, pack *zstd.Encoder) (name string, err error) {
	p, err := o.Create("j", "upload")
	if err != nil {
		return "", err
	}
	w := NewUploadWriter(p)
	line := int64(2)
	for i, text := range s.frames {
		err = errors.Join(err, w.AddFrame(pack.EncodeAll([]byte(text), nil),
			Frame{Line: line, Rows: uint32(s.rows[i]), Raw: uint32(len(text))}))
		line += int64(s.rows[i])
	}
	set := addresses.NewSetWriter(w.Addresses(), 1)
	for _, a := range s.addresses {
		err = errors.Join(err, set.Add(addresses.Hash(a, 1)))
	}
	if s.addresses != nil {
		err = errors.Join(err, set.Finish())
	}
	for row, first := range s.firstRows {
		if first != 0 {
			err = errors.Join(err, w.AddDuplicate(uint32(row), first-1))
		}
	}
	if err = errors.Join(err, w.Finish([]byte(s.preamble))); err == nil {
		err = p.Commit()
	}
	return p.Name(), errors.Join(err, p.Abort())
}

// readUpload reads all of an upload.
func readUpload(o *Folder, name string, unpack *zstd.Decoder) (s testUpload, err error) {
	u, err := OpenUpload(o, "j", name, unpack)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	s.preamble = string(u.Preamble)
	var packed, text []byte
	row, line, duplicates := uint32(0), int64(2), int64(0)
	for i, f := range u.Frames {
		if f.First != row || f.Line != line {
			return s, fmt.Errorf("frame %d begins with row %d in line %d", i, f.First, f.Line)
		}
		row, line = row+f.Rows, line+int64(f.Rows)
		if packed, text, err = u.Unpack(i, packed, text); err != nil {
			return s, err
		}
		s.frames, s.rows = append(s.frames, string(text)), append(s.rows, int(f.Rows))
		if s.firstRows, err = u.AppendFirstRows(s.firstRows, i); err != nil {
			return s, err
		}
	}
	for _, first := range s.firstRows {
		if first != 0 {
			duplicates++
		}
	}
	if int64(row) != u.Rows() || duplicates != u.Duplicates() {
		return s, fmt.Errorf("%d rows and %d duplicates, and it says %d and %d", row, duplicates, u.Rows(),
			u.Duplicates())
	}
	return s, nil
}

func TestUploadRoundTrip(t *testing.T) {
	pack, unpack := newZstd(t)
	rapid.Check(t, func(t *rapid.T) {
		s := testUpload{preamble: rapid.SampledFrom([]string{"", "\xef\xbb\xbfemail\n"}).Draw(t, "preamble")}
		for range rapid.IntRange(0, 5).Draw(t, "frames") {
			rows := rapid.IntRange(1, 20).Draw(t, "rows")
			s.frames, s.rows = append(s.frames, rapid.StringN(0, 50, 200).Draw(t, "text")), append(s.rows, rows)
			for range rows {
				first := uint32(0)
				if row := len(s.firstRows); row > 0 && rapid.Bool().Draw(t, "duplicate") {
					first = uint32(rapid.IntRange(0, row-1).Draw(t, "first")) + 1
				}
				s.firstRows = append(s.firstRows, first)
			}
		}
		o := &Folder{vfs.NewMem(), "jobs"}
		if rapid.Bool().Draw(t, "set") {
			s.addresses = rapid.SliceOfNDistinct(rapid.String(), 1, 9, rapid.ID).Draw(t, "addresses")
		}
		name, err := s.write(o, pack)
		require.NoError(t, err)
		got, err := readUpload(o, name, unpack)
		require.NoError(t, err)
		requireAddresses(t, o, name, unpack, s.addresses)
		s.addresses = nil
		require.Equal(t, s, got)
	})
}

// requireAddresses requires that the set of an upload contains addresses, and no other; nil: it may contain any.
func requireAddresses(t require.TestingT, o *Folder, name string, unpack *zstd.Decoder, all []string) {
	u, err := OpenUpload(o, "j", name, unpack)
	require.NoError(t, err)
	for _, a := range all {
		require.True(t, u.Addresses().MayContain(a))
	}
	require.Equal(t, all == nil, u.Addresses().MayContain("absent@x.example"))
	require.NoError(t, u.Close())
}

// uploadBytes is an upload with duplicates in the first frame and the third.
func uploadBytes() *testUpload {
	s := &testUpload{preamble: "id,email\n", rows: []int{40, 30, 50}}
	for i, rows := range s.rows {
		s.frames = append(s.frames, string(bytes.Repeat([]byte(fmt.Sprintf("%d,u@d%d.example\n", i, i)), rows)))
	}
	s.firstRows = make([]uint32, 120)
	s.firstRows[3] = 1
	s.firstRows[39] = 3
	s.firstRows[75] = 39
	s.firstRows[119] = 75
	return s
}

// TestFlippedBitOfUploadIsDamage flips 1,000 random bits, one at a time: reading gives the original content or damage.
// Its set of addresses still contains them, or any.
func TestFlippedBitOfUploadIsDamage(t *testing.T) {
	pack, unpack := newZstd(t)
	disk, want := vfs.NewMem(), uploadBytes()
	all := []string{"u0@d0.example", "u1@d1.example", "u2@d2.example"}
	want.addresses = all
	o := &Folder{disk, "jobs"}
	name, err := want.write(o, pack)
	require.NoError(t, err)
	want.addresses = nil
	whole := readFile(t, disk, "jobs/j/"+name)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		b, bit := slices.Clone(whole), rng.IntN(8*len(whole))
		b[bit/8] ^= 1 << (bit % 8)
		writeFile(t, disk, "jobs/j/"+name, b)
		got, err := readUpload(o, name, unpack)
		if err == nil {
			require.Equal(t, *want, got, "bit %d", bit)
			u, err := OpenUpload(o, "j", name, unpack)
			require.NoError(t, err)
			for _, a := range all {
				require.True(t, u.Addresses().MayContain(a), "bit %d", bit)
			}
			require.NoError(t, u.Close())
			continue
		}
		require.ErrorIs(t, err, ErrDamaged, "bit %d", bit)
	}
	for n := range len(whole) {
		writeFile(t, disk, "jobs/j/"+name, whole[:n])
		_, err := readUpload(o, name, unpack)
		require.ErrorIs(t, err, ErrDamaged, "cut at %d", n)
	}
}

func TestUploadOfAnotherVersionIsRefused(t *testing.T) {
	pack, unpack := newZstd(t)
	disk := vfs.NewMem()
	o := &Folder{disk, "jobs"}
	name, err := uploadBytes().write(o, pack)
	require.NoError(t, err)
	b := readFile(t, disk, "jobs/j/"+name)
	writeFile(t, disk, "jobs/j/"+name, append(b[:len(b)-2], "\x02\xfd"...))
	_, err = readUpload(o, name, unpack)
	require.ErrorIs(t, err, ErrVersion)
}

// TestNoUploadIsFinishedOnAFailingDisk: an incomplete file is never accepted as an upload.
func TestNoUploadIsFinishedOnAFailingDisk(t *testing.T) {
	pack, unpack := newZstd(t)
	for _, persist := range []bool{false, true} {
		failed := 0
		for n, more := 1, true; more; n++ {
			disk := vfs.NewMem()
			failing := &failingFS{FS: disk, stepsLeft: n, persistFailed: persist}
			upload := uploadBytes()
			upload.addresses = []string{"u0@d0.example"}
			name, err := upload.write(&Folder{failing, "jobs"}, pack)
			more = failing.stepsLeft <= 0
			if !more {
				require.NoError(t, err)
				break
			}
			failed++
			require.ErrorIs(t, err, errFailing)
			if name == "" {
				continue // it was not started
			}
			_, err = readUpload(&Folder{disk, "jobs"}, name, unpack)
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
		require.Greater(t, failed, 10)
	}
}

// TestDuplicateRefersToAnEarlierRow: any other reference is refused before it is written.
func TestDuplicateRefersToAnEarlierRow(t *testing.T) {
	for _, pairs := range [][][2]uint32{{{3, 3}}, {{3, 4}}, {{10, 1}}, {{1 << 31, 1}}, {{5, 1}, {5, 1}},
		{{5, 1}, {4, 1}}} {
		w := NewUploadWriter(&bytes.Buffer{})
		require.NoError(t, w.AddFrame(nil, Frame{Rows: 4}))
		require.NoError(t, w.AddFrame(nil, Frame{Rows: 6}))
		var err error
		for _, p := range pairs {
			err = errors.Join(err, w.AddDuplicate(p[0], p[1]))
		}
		require.ErrorIs(t, err, ErrDamaged, "%v", pairs)
	}
}

// FuzzUpload reads frames with an index whose checksum is right, and with one whose checksum may be wrong.
func FuzzUpload(f *testing.F) {
	pack, unpack := newZstd(f)
	disk := vfs.NewMem()
	o := &Folder{disk, "jobs"}
	name, err := uploadBytes().write(o, pack)
	require.NoError(f, err)
	whole := readFile(f, disk, "jobs/j/"+name)
	at := len(whole) - uploadFooterBytes - 4 - len("id,email\n") - 3*frameEntryBytes
	f.Add(whole[:at], whole[at:len(whole)-uploadFooterBytes], true)
	f.Add(whole[:at], whole[at:], false)
	f.Fuzz(func(t *testing.T, body, index []byte, withFooter bool) {
		b := append(slices.Clone(body), index...)
		if withFooter {
			b = append(slices.Clone(body), appendFooter(slices.Clone(index))...)
		}
		disk := vfs.NewMem()
		require.NoError(t, disk.MkdirAll("jobs/j", 0o700))
		writeFile(t, disk, "jobs/j/"+name, b)
		u, err := OpenUpload(&Folder{disk, "jobs"}, "j", name, unpack)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				require.ErrorIs(t, err, ErrVersion)
			}
			return
		}
		defer u.Close()
		u.Addresses().MayContain("u0@d0.example")
		for i := range u.Frames {
			if _, _, err := u.Unpack(i, nil, nil); err != nil {
				require.ErrorIs(t, err, ErrDamaged)
			}
			if _, err := u.AppendFirstRows(nil, i); err != nil {
				require.ErrorIs(t, err, ErrDamaged)
			}
		}
	})
}
