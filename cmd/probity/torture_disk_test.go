package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// tornProgram is this program on a disk that does as it is told: its command goes to TestMain as any other program.
const (
	tornProgram = "probity-torn"
	tornEnv     = "TORN_DISK" // the socket on which the disk is told
)

// tornMain is main, on a torn disk.
func tornMain() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	disk := &tornDisk{FS: vfs.Default}
	path := os.Getenv(tornEnv)
	_ = os.Remove(path) // of an earlier life
	ears, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torn disk:", err)
		os.Exit(2)
	}
	go disk.obey(ears) // to the end of the process
	os.Exit(run(ctx, os.Args[1:], &console{in: os.Stdin, out: os.Stdout, err: os.Stderr, disk: disk}))
}

// tornDisk is a disk that can be full, slow, or fail one step: before it took effect, or after.
type tornDisk struct {
	vfs.FS
	only    string // what the path of a file contains for which a step may fail; "" for all
	full    atomic.Bool
	slow    atomic.Int64 // of a sync, nanoseconds
	left    atomic.Int64 // durable steps until the one that fails; 0 is none
	persist atomic.Bool  // the step that fails takes effect all the same
}

// obey takes one word a line: full, slow DURATION, fail N, failafter N, well.
func (d *tornDisk) obey(ears net.Listener) {
	for {
		c, err := ears.Accept()
		if err != nil {
			continue
		}
		in := bufio.NewScanner(c)
		for in.Scan() {
			d.do(in.Text())
			fmt.Fprintln(c, "done")
		}
		_ = c.Close()
	}
}

func (d *tornDisk) do(line string) {
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
		d.left.Store(n)
	case "well":
		d.full.Store(false)
		d.slow.Store(0)
		d.left.Store(0)
	}
}

// step runs a durable step, unless it is to fail.
func (d *tornDisk) step(path string, grows bool, do func() error) error {
	if !strings.Contains(path, d.only) {
		return do()
	}
	if grows && d.full.Load() {
		return syscall.ENOSPC
	}
	if d.left.Load() <= 0 || d.left.Add(-1) != 0 {
		return do()
	}
	if d.persist.Load() {
		if err := do(); err != nil {
			return err
		}
	}
	return syscall.EIO
}

func (d *tornDisk) wrap(path string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &tornFile{f, d, path}, nil
}

func (d *tornDisk) Create(name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = d.step(name, true, func() error { f, err = d.FS.Create(name, c); return err })
	return d.wrap(name, f, err)
}

func (d *tornDisk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (f vfs.File, err error) {
	err = d.step(name, true, func() error { f, err = d.FS.OpenReadWrite(name, c, o...); return err })
	return d.wrap(name, f, err)
}

func (d *tornDisk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = d.step(to, false, func() error { f, err = d.FS.ReuseForWrite(from, to, c); return err })
	return d.wrap(to, f, err)
}

func (d *tornDisk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	return d.wrap(name, f, err)
}

func (d *tornDisk) Rename(from, to string) error {
	return d.step(to, false, func() error { return d.FS.Rename(from, to) })
}

type tornFile struct {
	vfs.File
	disk *tornDisk
	path string
}

func (f *tornFile) Write(b []byte) (n int, err error) {
	err = f.disk.step(f.path, true, func() error { n, err = f.File.Write(b); return err })
	return n, err
}

func (f *tornFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.disk.step(f.path, true, func() error { n, err = f.File.WriteAt(b, at); return err })
	return n, err
}

func (f *tornFile) Sync() error     { return f.sync(f.File.Sync) }
func (f *tornFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *tornFile) sync(do func() error) error {
	if d := time.Duration(f.disk.slow.Load()); d > 0 {
		time.Sleep(d) // in a process whose clock is real: this is what a slow disk does
	}
	return f.disk.step(f.path, false, do)
}

// tell tells the disk of a process; an error when the process is not there.
func tell(socket, word string) error {
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
