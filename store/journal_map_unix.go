//go:build unix

package store

import (
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// mapFile maps a real file into memory; nil for another. Bytes written there survive the process, as with a system call, at half the
// cost (BenchmarkSinglesOfOneAccount).
func mapFile(f vfs.File, size int) ([]byte, error) {
	if f.Fd() == vfs.InvalidFd {
		return nil, nil
	}
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func unmapFile(m []byte) error {
	if m == nil {
		return nil
	}
	return unix.Munmap(m)
}
