package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReadAddressesTakesEachOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.csv")
	text := "id,email\n1,ann@a.example\n2, bob@b.example \n3,ann@a.example\n4,\n5,\"two\nlines\"\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got, rows, err := readAddresses(path)
	if want := []string{"ann@a.example", "bob@b.example"}; err != nil || rows != 5 || !slices.Equal(got, want) {
		t.Errorf("%v, %d rows, %v", got, rows, err)
	}
}

func TestStatusesAreCountedOnceAnAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "result.csv")
	text := "email,verify_status\na,VALID\nb,INVALID\na,VALID\nc,RISKY\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var c Count
	if err := c.readStatuses(path); err != nil || c.Good != 1 || c.Bad != 1 || c.Unknown != 1 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestUnmetBarsFailTheReport(t *testing.T) {
	ours := Count{Addresses: 1000, timed: 1000, Elapsed: time.Second, CPU: time.Second,
		Traffic: traffic{Connections: 10}}
	rival := Count{Addresses: 1000, timed: 1000, Elapsed: 15 * time.Second, CPU: 8 * time.Second,
		Traffic: traffic{Connections: 2000}}
	for latency, want := range map[string][]bool{noLatency: {true, false, true}, "50ms": {false}} {
		var got []bool
		for _, b := range bars(latency, ours, rival) {
			got = append(got, b.OK)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v", latency, got)
		}
	}
}

func TestPeersRefuseWhatIsNoAddress(t *testing.T) {
	for _, p := range peers() {
		verify, err := p.New()
		if err != nil {
			t.Fatal(err)
		}
		if got := verify("no address"); got != Bad {
			t.Errorf("%s: %v", p.Name, got)
		}
		var out strings.Builder
		if err := (workCmd{peer: p.Name, workers: 2}).run(strings.NewReader("no address\nno\n"), &out); err != nil ||
			!strings.HasSuffix(out.String(), " 1 0 2 0\n") {
			t.Errorf("%s: %q, %v", p.Name, out.String(), err)
		}
	}
}

func TestPeakIsOfTheProcessAlone(t *testing.T) {
	ours := make([]byte, 256<<20)
	for i := 0; i < len(ours); i += os.Getpagesize() {
		ours[i] = 1
	}
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	peak := watchPeak(cmd.Process.Pid)
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if most := peak(); most <= 0 || most > int64(len(ours))/2 {
		t.Errorf("a cat had %d bytes at its peak, beside a test of %d", most, len(ours))
	}
	runtime.KeepAlive(ours)
}
