package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"time"

	"probity/bench/process"
	"probity/bench/sim/referee"
	"probity/bench/sim/world"
)

// readyTimeout bounds the start of a process.
const readyTimeout = 30 * time.Second

// errNotReady means that a process started but did not report in time that it serves.
var errNotReady = errors.New("it was not ready in time")

// internet is a running process of the simulated internet.
type internet struct {
	*process.Process
	world    *world.World // the same population, for code that needs the truth
	dns      netip.AddrPort
	smtpPort int
	referee  string // URL
}

// readyLine is the line of sim serve when it is ready.
var readyLine = regexp.MustCompile(`DNS at (\S+), SMTP at port (\d+), referee at (http://\S+)$`)

// startTries is how often a start of the simulated internet is tried: a port that is free for UDP, or at one host, may
// be in use for TCP, or at another host.
const startTries = 4

// startInternet starts the simulated internet on free ports.
func (t *Trial) startInternet(ctx context.Context, speedup float64) (in *internet, err error) {
	for range startTries {
		in, err = t.startInternetOnce(ctx, speedup)
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return in, err
}

func (t *Trial) startInternetOnce(ctx context.Context, speedup float64) (*internet, error) {
	latency := t.Latency
	if latency == "realistic" && speedup == 0 {
		latency = realisticLatency
	}
	ready := make(chan []string, 1)
	p, err := process.Start(ctx, process.Command{Name: "sim serve", Binary: t.Binary, Line: func(l string) {
		if m := readyLine.FindStringSubmatch(l); m != nil {
			select {
			case ready <- m:
			default:
			}
		}
	}, Args: []string{"sim", "serve", "--dns=127.0.0.1:0", "--smtp-port=-1", "--http=127.0.0.1:0",
		"--latency=" + latency,
		"--homes=" + strconv.Itoa(t.homes), "--seed=" + strconv.FormatUint(t.Options.Seed, 10),
		"--speedup=" + strconv.FormatFloat(speedup, 'g', -1, 64)}})
	if err != nil {
		return nil, err
	}
	in := &internet{Process: p, world: world.New(world.Config{Seed: t.Options.Seed, Homes: t.homes})}
	select {
	case m := <-ready:
		if in.dns, err = netip.ParseAddrPort(m[1]); err != nil {
			return in, fmt.Errorf("sim serve: %w", err)
		}
		if in.smtpPort, err = strconv.Atoi(m[2]); err != nil {
			return in, fmt.Errorf("sim serve: %w", err)
		}
		in.referee = m[3]
		return in, nil
	case <-p.Done():
		return nil, errors.Join(p.Wait(), fmt.Errorf("sim serve ended: %s", p.LastLine()))
	case <-time.After(readyTimeout):
	case <-ctx.Done():
	}
	return nil, errors.Join(fmt.Errorf("sim serve: %w", errNotReady), p.End(), ctx.Err())
}

// realisticLatency is the average of realistic latency. The simulated internet divides realistic latency by its
// speed-up, and has none at speed-up 0.
const realisticLatency = "130ms"

// report reads the referee's report.
func (in *internet) report(ctx context.Context) (rep referee.Report, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, in.referee, nil)
	if err != nil {
		return rep, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return rep, fmt.Errorf("referee: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return rep, fmt.Errorf("referee: %s", answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(&rep); err != nil {
		return rep, fmt.Errorf("referee: %w", err)
	}
	return rep, nil
}

// traffic is what the simulated internet saw between two reports.
type traffic struct{ connections, recipients, refused int64 }

func trafficBetween(before, after referee.Report) traffic {
	return traffic{after.Connections - before.Connections, after.Recipients - before.Recipients,
		after.Refused - before.Refused}
}
