package tus

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestOffsetIsDurable: after a crash an upload has the bytes that its offset tells of, whatever else was written.
func TestOffsetIsDurable(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s, err := Open(Config{FS: disk, Dir: "uploads"})
	require.NoError(t, err)
	content := bytes.Repeat([]byte("0123456789abcdef"), 3<<20)
	u, err := s.create("u1", "l.csv", int64(len(content)))
	require.NoError(t, err)
	lost := errors.New("lost")
	var crashed []*vfs.MemFS
	pieces := [][]byte{content[:5], content[5:200_000], content[200_000 : 40<<20]}
	for _, piece := range pieces {
		u, err = s.reserve("u1", u.ID)
		require.NoError(t, err)
		watched := io.TeeReader(bytes.NewReader(piece), writerFunc(func([]byte) {
			if len(crashed) < 100 {
				crashed = append(crashed, disk.CrashClone(vfs.CrashCloneCfg{}))
			}
		}))
		require.ErrorIs(t, s.write(&u, io.MultiReader(watched, iotest.ErrReader(lost)), nil), lost)
		s.release(u.ID)
		u, err = s.find("u1", u.ID)
		require.NoError(t, err)
		crashed = append(crashed, disk.CrashClone(vfs.CrashCloneCfg{}))
	}
	require.EqualValues(t, 40<<20, u.Offset)
	offsets := map[int64]bool{}
	for _, disk := range crashed {
		again, err := Open(Config{FS: disk, Dir: "uploads"})
		require.NoError(t, err)
		found, err := again.find("u1", u.ID)
		require.NoError(t, err)
		offsets[found.Offset] = true
		if found.Offset == 0 {
			continue
		}
		f, err := disk.Open(again.path(u.ID))
		require.NoError(t, err)
		got := make([]byte, found.Offset)
		_, err = io.ReadFull(f, got)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.True(t, bytes.Equal(content[:found.Offset], got))
	}
	for _, want := range []int64{0, 5, 200_000, 40 << 20} {
		require.True(t, offsets[want], want)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

// TestDamagedFileAboutAnUploadLosesOnlyIt: the others are there at the next start.
func TestDamagedFileAboutAnUploadLosesOnlyIt(t *testing.T) {
	disk := vfs.NewMem()
	s, err := Open(Config{FS: disk, Dir: "uploads"})
	require.NoError(t, err)
	one, err := s.create("u1", "", 10)
	require.NoError(t, err)
	two, err := s.create("u1", "", 10)
	require.NoError(t, err)
	f, err := disk.Create(s.path(one.ID+infoSuffix), vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = io.WriteString(f, "{")
	require.NoError(t, errors.Join(err, f.Close()))
	again, err := Open(Config{FS: disk, Dir: "uploads"})
	require.NoError(t, err)
	_, err = again.find("u1", one.ID)
	require.Error(t, err)
	_, err = again.find("u1", two.ID)
	require.NoError(t, err)
}

// TestEndedUploadStaysGone: a crash that undoes the deletion of its files does not bring it back, so that none comes
// back without its bytes.
func TestEndedUploadStaysGone(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s, err := Open(Config{FS: disk, Dir: "uploads"})
	require.NoError(t, err)
	u, err := s.create("u1", "l.csv", 10)
	require.NoError(t, err)
	u, err = s.reserve("u1", u.ID)
	require.NoError(t, err)
	require.NoError(t, s.write(&u, strings.NewReader("email\n"), nil))
	require.NoError(t, s.end(u))
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	names, err := crashed.List("uploads")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	again, err := Open(Config{FS: crashed, Dir: "uploads"})
	require.NoError(t, err)
	_, err = again.find("u1", u.ID)
	require.ErrorContains(t, err, "no such upload")
	names, err = crashed.List("uploads")
	require.NoError(t, err)
	require.Empty(t, names)
}

// FuzzHeaders: a file name that is taken is what was packed into the metadata, and a checksum is as long as text says.
func FuzzHeaders(f *testing.F) {
	f.Add("filename bGlzdC5jc3Y=,type dGV4dA==", "sha1 2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "list.csv")
	f.Add("name ", "sha256", "a,b c")
	f.Fuzz(func(t *testing.T, metadata, sum, name string) {
		if got, err := filenameIn(metadata); err == nil {
			require.True(t, got == "" || strings.Contains(metadata, base64.StdEncoding.EncodeToString([]byte(got))) ||
				strings.ContainsAny(metadata, "\r\n"))
		}
		if parsed, err := parseChecksum(sum); err == nil && parsed != nil {
			require.NotNil(t, parsed.hash)
		}
		if len(name) <= maxName {
			packed := fmt.Sprintf("other eA==, filename %s", base64.StdEncoding.EncodeToString([]byte(name)))
			got, err := filenameIn(packed)
			require.NoError(t, err)
			require.Equal(t, name, got)
		}
	})
}
