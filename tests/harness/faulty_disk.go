package harness

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FaultyDisk is a disk that can be full, slow, or fail one step: before it took effect, or after.
type FaultyDisk struct {
	vfs.FS
	PathPart  string // part of the paths of files for which a step may fail; "" for all
	full      atomic.Bool
	slow      atomic.Int64 // delay of a sync, nanoseconds
	stepsLeft atomic.Int64 // durable steps until the one that fails; 0 is none
	persist   atomic.Bool  // the step that fails still takes effect
}

// ServeCommands takes one word a line: full, slow DURATION, fail N, failafter N, well.
func (d *FaultyDisk) ServeCommands(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			continue
		}
		in := bufio.NewScanner(c)
		for in.Scan() {
			d.Execute(in.Text())
			fmt.Fprintln(c, "done")
		}
		_ = c.Close()
	}
}

// Execute carries out one command.
func (d *FaultyDisk) Execute(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "full":
		d.full.Store(true)
	case "slow":
		wait, _ := time.ParseDuration(rest)
		d.slow.Store(int64(wait))
	case "fail", "failafter":
		n, _ := strconv.ParseInt(rest, 10, 64)
		d.persist.Store(word == "failafter")
		d.stepsLeft.Store(n)
	case "well":
		d.full.Store(false)
		d.slow.Store(0)
		d.stepsLeft.Store(0)
	}
}

// durableStep runs a durable step, unless it is to fail.
func (d *FaultyDisk) durableStep(path string, grows bool, do func() error) error {
	if !strings.Contains(path, d.PathPart) {
		return do()
	}
	if grows && d.full.Load() {
		return syscall.ENOSPC
	}
	if d.stepsLeft.Load() <= 0 || d.stepsLeft.Add(-1) != 0 {
		return do()
	}
	if d.persist.Load() {
		if err := do(); err != nil {
			return err
		}
	}
	return syscall.EIO
}

func (d *FaultyDisk) wrap(path string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &faultyFile{f, d, path}, nil
}

// Create creates a file, which takes room.
func (d *FaultyDisk) Create(name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = d.durableStep(name, true, func() error { f, err = d.FS.Create(name, c); return err })
	return d.wrap(name, f, err)
}

// OpenReadWrite opens a file that may grow.
func (d *FaultyDisk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (f vfs.File, err error) {
	err = d.durableStep(name, true, func() error { f, err = d.FS.OpenReadWrite(name, c, o...); return err })
	return d.wrap(name, f, err)
}

// ReuseForWrite renames an old file and opens it.
func (d *FaultyDisk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = d.durableStep(to, false, func() error { f, err = d.FS.ReuseForWrite(from, to, c); return err })
	return d.wrap(to, f, err)
}

// OpenDir opens a folder, whose syncs may fail.
func (d *FaultyDisk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	return d.wrap(name, f, err)
}

// Rename renames a file: a durable step.
func (d *FaultyDisk) Rename(from, to string) error {
	return d.durableStep(to, false, func() error { return d.FS.Rename(from, to) })
}

type faultyFile struct {
	vfs.File
	disk *FaultyDisk
	path string
}

func (f *faultyFile) Write(b []byte) (n int, err error) {
	err = f.disk.durableStep(f.path, true, func() error { n, err = f.File.Write(b); return err })
	return n, err
}

func (f *faultyFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.disk.durableStep(f.path, true, func() error { n, err = f.File.WriteAt(b, at); return err })
	return n, err
}

func (f *faultyFile) Sync() error     { return f.sync(f.File.Sync) }
func (f *faultyFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *faultyFile) sync(do func() error) error {
	if d := time.Duration(f.disk.slow.Load()); d > 0 {
		time.Sleep(d) // a slow disk, in a process with a real clock
	}
	return f.disk.durableStep(f.path, false, do)
}

// CommandDisk sends a command to the disk of a process; an error if the process is not running.
func CommandDisk(socket, word string) error {
	c, err := net.DialTimeout("unix", socket, 2*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := fmt.Fprintln(c, word); err != nil {
		return err
	}
	_, err = bufio.NewReader(c).ReadString('\n')
	return err
}
