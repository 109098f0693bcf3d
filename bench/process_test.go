package bench

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/process"
	"probity/bench/report"
)

func TestFailedProcessReportsItsError(t *testing.T) {
	t.Setenv(standIn, "1")
	p, err := process.Start(t.Context(), process.Command{Name: "coffee", Binary: os.Args[0], Args: []string{"coffee"}})
	require.NoError(t, err)
	err = p.Wait()
	require.ErrorContains(t, err, "coffee: exit status 2")
	require.ErrorContains(t, err, "unexpected argument coffee")
	_, err = process.Start(t.Context(), process.Command{Name: "nothing", Binary: os.Args[0] + ".none"})
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
	require.NoError(t, in.End())
	require.Positive(t, in.CPU())
	require.Positive(t, in.Peak())
}

func TestCancelledRunEndsItsProcesses(t *testing.T) {
	tr := &Trial{Options: standInOptions(t, 0), Report: report.New("x", "", 7, report.Machine{})}
	ctx, cancel := context.WithCancel(t.Context())
	in, err := tr.startInternet(ctx, 0)
	require.NoError(t, err)
	cancel()
	select {
	case <-in.Done():
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

func TestFilterRowsKeepsCells(t *testing.T) {
	var b bytes.Buffer
	path := t.TempDir() + "/l.csv"
	require.NoError(t, os.WriteFile(path, []byte("id,first_name,last_name,email,company,city,notes\n1,A,B,a@x.example,\"C, D\",E,\n2,A,B,b@y.example,C,E,\n"), 0o600))
	rows, err := filterRows(&b, path, func(cell string) bool { return strings.HasSuffix(cell, "@x.example") })
	require.NoError(t, err)
	require.Equal(t, 1, rows)
	require.Equal(t, "id,first_name,last_name,email,company,city,notes\n1,A,B,a@x.example,\"C, D\",E,\n", b.String())
}
