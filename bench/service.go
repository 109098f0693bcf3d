package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"probity/bench/process"
)

// service is a running serve process with its own store and API keys.
type service struct {
	*process.Process
	commandLine []string // of the process
	baseURL     string   // URL of the public listener
	admin       string   // address of the admin listener
	keys        []string // one of each account: limits hold by account
}

// serviceConfig configures the service of a scenario.
type serviceConfig struct {
	name     string // of its folder below the trial's
	accounts int
	sources  int  // IPv4 egress sources; 0 is one
	test     bool // test keys, which probe nothing
}

// errNoCommand means that this build lacks a command that the scenario drives.
var errNoCommand = errors.New("this build of probity has no such command; build one that has serve, user and key")

// withService calls do with a fresh service without limits.
func (t *Trial) withService(ctx context.Context, in *internet, c serviceConfig, do func(*service) error) (err error) {
	providers, err := t.writeProviders(0)
	if err != nil {
		return err
	}
	line := append([]string{"serve"}, probingFlags(in.dns, in.smtpPort, providers)...)
	for i := 1; i < c.sources; i++ {
		line = append(line, "--egress", fmt.Sprintf("127.0.1.%d=probe%d.bench.example", i, i))
	}
	s, err := t.startServer(ctx, c, line)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.End()) }()
	return do(s)
}

// startServer makes a store with accounts and keys, and starts serve or coordinator on it and on free ports.
func (t *Trial) startServer(ctx context.Context, c serviceConfig, line []string) (*service, error) {
	data := filepath.Join(t.Dir, c.name)
	s := &service{}
	for i := range max(1, c.accounts) {
		key, err := t.makeAccount(ctx, data, fmt.Sprintf("bench%d@bench.example", i), c.test)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, key)
	}
	public, err := freePort()
	if err != nil {
		return nil, err
	}
	if s.admin, err = freePort(); err != nil {
		return nil, err
	}
	s.baseURL = "http://" + public
	s.commandLine = append(line, "--data", data, "--listen", public, "--admin-listen", s.admin)
	return s, t.start(ctx, s)
}

// start starts the process of a service, for the first time or after its end, and waits until it is ready.
func (t *Trial) start(ctx context.Context, s *service) (err error) {
	if s.Process, err = process.Start(ctx, process.Command{Name: s.commandLine[0], Binary: t.Binary,
		Args: s.commandLine}); err != nil {
		return err
	}
	if err := s.awaitReady(ctx); err != nil {
		return errors.Join(err, s.End())
	}
	return nil
}

// The limits and credits of an account of a bench: the highest that the API takes, and enough for any list.
const (
	accountLimit   = "1000000"
	accountCredits = "100000000"
)

// makeAccount adds a user to the stopped store and returns an API key of the user.
func (t *Trial) makeAccount(ctx context.Context, data, email string, test bool) (key string, err error) {
	if _, err := t.output(ctx, "user", "add", email, "--role", "customer", "--credits", accountCredits,
		"--limit", "single="+accountLimit+"/min", "--limit", "batch="+accountLimit+"/min",
		"--limit", "bulk="+accountLimit+"/hour", "--data", data); err != nil {
		return "", err
	}
	args := []string{"key", "create", "--user", email, "--name", "bench", "--data", data}
	if test {
		args = append(args, "--test")
	}
	return t.output(ctx, args...)
}

// usageExit is the exit status for a wrong command line.
const usageExit = 2

// output runs a short command and returns its output.
func (t *Trial) output(ctx context.Context, args ...string) (string, error) {
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, t.Binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	cmd.Env = process.CleanEnvironment(cmd.Environ())
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == usageExit {
		return "", fmt.Errorf("%s: %w (%s)", strings.Join(args[:2], " "), errNoCommand, firstLine(stderr.String()))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args[:2], " "), err, firstLine(stderr.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// awaitReady polls until the service is ready, ends, or takes too long.
func (s *service) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("serve: %w", errNotReady))
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if s.isReady(ctx) {
			tick.Stop()
			return nil
		}
		select {
		case <-s.Done():
			tick.Stop()
			return s.exitError()
		case <-ctx.Done():
			tick.Stop()
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (s *service) isReady(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.baseURL+"/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}

// exitError tells a missing command from a service that failed.
func (s *service) exitError() error {
	err := s.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == usageExit {
		return fmt.Errorf("serve: %w (%s)", errNoCommand, s.LastLine())
	}
	return errors.Join(err, errors.New("serve ended before it was ready: "+s.LastLine()))
}
