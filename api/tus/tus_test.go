package tus

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
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
	require.NoError(t, s.remove(u.ID))
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

// TestUploadIsDeletedOnAFullDisk: no space is needed to make space, and no file is left.
func TestUploadIsDeletedOnAFullDisk(t *testing.T) {
	full := false
	disk := vfs.NewMem()
	failing := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full && (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileWriteAt) {
			return syscall.ENOSPC
		}
		return nil
	}))
	s, err := Open(Config{FS: failing, Dir: "uploads"})
	require.NoError(t, err)
	u, err := s.create("u1", "l.csv", 10)
	require.NoError(t, err)
	u, err = s.reserve("u1", u.ID)
	require.NoError(t, err)
	require.NoError(t, s.write(&u, strings.NewReader("email\n"), nil))
	full = true
	require.ErrorIs(t, s.save(u), syscall.ENOSPC)
	require.NoError(t, s.remove(u.ID))
	_, err = s.find("u1", u.ID)
	require.ErrorContains(t, err, "no such upload")
	names, err := disk.List("uploads")
	require.NoError(t, err)
	require.Empty(t, names)
}

// TestUploadThatCannotBeDeletedIsDeletedLater: an error of the disk leaves the upload to a later request or sweep, and
// hinders no other.
func TestUploadThatCannotBeDeletedIsDeletedLater(t *testing.T) {
	broken := false
	disk := vfs.NewMem()
	s, err := Open(Config{FS: errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken && op.Kind == errorfs.OpRemove {
			return syscall.EIO
		}
		return nil
	})), Dir: "uploads"})
	require.NoError(t, err)
	for range 2 {
		_, err := s.create("u1", "", 10)
		require.NoError(t, err)
	}
	later := time.Now().Add(2 * lifetime)
	broken = true
	n, err := s.Sweep(later)
	require.ErrorIs(t, err, syscall.EIO)
	require.Zero(t, n)
	broken = false
	n, err = s.Sweep(later)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	names, err := disk.List("uploads")
	require.NoError(t, err)
	require.Empty(t, names)
}

// TestUploadIsReservedOnlyWhileItIsThere: a request that meets the deletion of its upload is refused, and leaves
// nothing reserved.
func TestUploadIsReservedOnlyWhileItIsThere(t *testing.T) {
	s, err := Open(Config{FS: vfs.NewMem(), Dir: "uploads"})
	require.NoError(t, err)
	u := Upload{ID: "a", Account: "u1", Expires: time.Now().Add(lifetime)}
	var over atomic.Bool
	var requests sync.WaitGroup
	for range 4 {
		requests.Go(func() {
			for !over.Load() {
				_, err := s.reserve("u1", u.ID)
				if err == nil {
					s.release(u.ID)
				}
			}
		})
	}
	for deleted := 0; deleted < 10_000; {
		s.addTo("u1", &u)
		_, err := s.reserve("u1", u.ID)
		if err == nil {
			require.NoError(t, s.remove(u.ID))
			deleted++
		}
	}
	over.Store(true)
	requests.Wait()
	require.Empty(t, s.busy)
}

// TestUsedUploadsDoNotCount among those that an account may have, also after a restart, and a piece does not keep them.
func TestUsedUploadsDoNotCount(t *testing.T) {
	disk := vfs.NewMem()
	now := time.Now()
	cfg := Config{FS: disk, Dir: "uploads", Now: func() time.Time { return now }}
	s, err := Open(cfg)
	require.NoError(t, err)
	for range maxUploads {
		u, err := s.create("u1", "", 1)
		require.NoError(t, err)
		u, err = s.reserve("u1", u.ID)
		require.NoError(t, err)
		require.NoError(t, s.write(&u, strings.NewReader("x"), nil))
		s.release(u.ID)
	}
	_, err = s.create("u1", "", 1)
	require.ErrorContains(t, err, "This account has 20 uploads")
	for id := range maps.Clone(s.all) {
		f, err := s.OpenFile("u1", id)
		require.NoError(t, err)
		require.NoError(t, f.Used())
		require.NoError(t, f.Close())
		u, err := s.reserve("u1", id)
		require.NoError(t, err)
		require.NoError(t, s.write(&u, strings.NewReader(""), nil))
		s.release(id)
	}
	s, err = Open(cfg)
	require.NoError(t, err)
	for range maxUploads {
		_, err = s.create("u1", "", 1)
		require.NoError(t, err)
	}
	_, err = s.create("u1", "", 1)
	require.ErrorContains(t, err, "This account has 20 uploads")
	n, err := s.Sweep(now.Add(keptUsed))
	require.NoError(t, err)
	require.Equal(t, maxUploads, n)
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
