package bench

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/report"
)

func TestFailedProcessReportsItsError(t *testing.T) {
	t.Setenv(standIn, "1")
	p, err := startProcess(t.Context(), command{name: "coffee", binary: os.Args[0], args: []string{"coffee"}})
	require.NoError(t, err)
	err = p.wait()
	require.ErrorContains(t, err, "coffee: exit status 2")
	require.ErrorContains(t, err, "unexpected argument coffee")
	_, err = startProcess(t.Context(), command{name: "nothing", binary: os.Args[0] + ".none"})
	require.ErrorContains(t, err, "start nothing")
}

func TestSimulatedInternetStartsAndStops(t *testing.T) {
	o := standInOptions(t, 0)
	tr := &Trial{Options: o, Report: report.New("x", "", 7, report.Machine{})}
	in, err := tr.startInternet(t.Context(), 0)
	require.NoError(t, err)
	rep, err := in.report(t.Context())
	require.NoError(t, err)
	require.Zero(t, rep.Connections)
	require.NotZero(t, in.smtpPort)
	require.NoError(t, in.end())
	require.Positive(t, in.cpu())
	require.Positive(t, in.peak())
}

func TestCancelledRunEndsItsProcesses(t *testing.T) {
	tr := &Trial{Options: standInOptions(t, 0), Report: report.New("x", "", 7, report.Machine{})}
	ctx, cancel := context.WithCancel(t.Context())
	in, err := tr.startInternet(ctx, 0)
	require.NoError(t, err)
	cancel()
	select {
	case <-in.done:
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on")
	}
}

func TestScenarioHasATimeLimit(t *testing.T) {
	o := standInOptions(t, 10)
	o.Timeout = time.Millisecond
	rep := Run(t.Context(), Scenario{Name: "slow", Run: func(ctx context.Context, _ *Trial) error {
		<-ctx.Done()
		return ctx.Err()
	}}, o)
	require.Contains(t, rep.Error, "it took longer than 1ms")
}

func TestOutputTailIsBounded(t *testing.T) {
	var lines []string
	ot := outputTail{line: func(l string) { lines = append(lines, l) }}
	for _, part := range []string{"one\ntw", "o\r\n", strings.Repeat("x", 3*maxOutput), "\n", "end\n\n"} {
		n, err := ot.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.Equal(t, []string{"one", "two"}, lines[:2])
	require.Equal(t, "end", ot.lastLine())
	require.LessOrEqual(t, len(ot.tail), maxOutput)
	require.LessOrEqual(t, len(ot.partial), maxOutput)
	require.Empty(t, (&outputTail{}).lastLine())
}

func TestSamplesAreThinned(t *testing.T) {
	var p process
	thinned := 0
	for i := range 3 * maxSamples {
		if p.addSample(Sample{At: time.Duration(i), Peak: int64(i)}) {
			thinned++
		}
	}
	require.Less(t, len(p.history()), maxSamples)
	require.Positive(t, thinned)
	require.Zero(t, p.history()[0].At)
}

func TestCleanEnvironment(t *testing.T) {
	require.Equal(t, []string{"A=1", "NOTPROBITY_B=2"}, cleanEnvironment([]string{"A=1", "PROBITY_DNS=x", "NOTPROBITY_B=2"}))
}

func TestFilterRowsKeepsCells(t *testing.T) {
	var b bytes.Buffer
	path := t.TempDir() + "/l.csv"
	require.NoError(t, os.WriteFile(path, []byte("id,first_name,last_name,email,company,city,notes\n1,A,B,a@x.example,\"C, D\",E,\n2,A,B,b@y.example,C,E,\n"), 0o600))
	rows, err := filterRows(&b, path, func(cell string) bool { return strings.HasSuffix(cell, "@x.example") })
	require.NoError(t, err)
	require.Equal(t, 1, rows)
	require.Equal(t, "id,first_name,last_name,email,company,city,notes\n1,A,B,a@x.example,\"C, D\",E,\n", b.String())
}
