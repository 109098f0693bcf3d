package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/internal/console"
	"probity/tests/harness"
)

// faultyDiskMain is main on a faulty disk, for the tests of tests/service.
func faultyDiskMain() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	disk := &harness.FaultyDisk{FS: vfs.Default}
	path := os.Getenv(harness.FaultyDiskEnv)
	_ = os.Remove(path) // of an earlier run
	listener, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faulty disk:", err)
		os.Exit(2)
	}
	go disk.ServeCommands(listener) // to the end of the process
	os.Exit(run(ctx, os.Args[1:], &console.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Disk: disk}))
}
