package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Addresses of the simulated internet within the namespace.
const (
	nameServer = "127.0.0.1"
	smtpPort   = 25
	refereeAt  = "127.0.0.1:8053"
)

// internet is a running simulated internet.
type internet struct{ cmd *exec.Cmd }

// errSilent means that the simulated internet ended before it was ready.
var errSilent = errors.New("sim serve did not become ready")

// startInternet starts a simulated internet without limits. It must be ended.
func (c contest) startInternet(ctx context.Context) (*internet, error) {
	in := &internet{cmd: exec.CommandContext(ctx, c.probity, "sim", "serve", "--seed", c.seedText(), "--speedup", "0",
		"--latency", c.latency,
		"--dns", nameServer+":53", "--smtp-port", strconv.Itoa(smtpPort), "--http", refereeAt)}
	in.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	words, err := in.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := in.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(words)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "referee at") {
			go func() { _, _ = io.Copy(io.Discard, words) }() // ends with the process
			return in, nil
		}
	}
	return nil, errors.Join(errSilent, in.end())
}

// end ends the process and waits for it.
func (in *internet) end() error {
	_ = in.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	err := in.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && !exit.Exited() {
		return nil
	}
	return err
}

// traffic is what the referee has counted so far.
type traffic struct {
	Connections int64 `json:"connections"`
	Recipients  int64 `json:"recipients"`
}

// settleTime is the time for the referee to count the last connections.
const settleTime = 100 * time.Millisecond

func (in *internet) report(ctx context.Context) (seen traffic, err error) {
	time.Sleep(settleTime)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+refereeAt+"/referee", nil)
	if err != nil {
		return seen, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return seen, fmt.Errorf("referee: %w", err)
	}
	defer answer.Body.Close()
	return seen, json.NewDecoder(answer.Body).Decode(&seen)
}
