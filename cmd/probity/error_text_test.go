package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/internal/console"
)

// TestClosedFolderIsNamed: of a file that does not exist, it is the folder that is closed.
func TestClosedFolderIsNamed(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "--data: " + filepath.Join(dir, "none") + " cannot be made, as " + dir +
			" is closed to this user: change the rights of that folder, or run as another user",
		dir: "--data: " + dir +
			" is closed to this user: change its rights, or run as another user",
	} {
		require.Equal(t, want, errorText(fmt.Errorf("--data: %w",
			&fs.PathError{Op: "mkdir", Path: path, Err: syscall.EACCES})))
	}
	require.Equal(t, "--data: "+dir+" is on a read-only file system: mount it for writing, or name another place",
		errorText(fmt.Errorf("--data: %w", &fs.PathError{Op: "access", Path: dir, Err: syscall.EROFS})))
}

// TestUsedPortOfASimulatorAdvises: a second simulator says what to do about the first.
func TestUsedPortOfASimulatorAdvises(t *testing.T) {
	used, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer used.Close()
	var out, words bytes.Buffer
	args := []string{"sim", "serve", "--dns", used.LocalAddr().String(), "--smtp-port=-1"}
	require.Equal(t, 1, run(t.Context(), args, &console.IO{In: strings.NewReader(""), Out: &out, Err: &words}))
	require.Contains(t, words.String(), "address already in use: end the simulator that runs there, or choose other ports with --dns, --smtp-port and --http")
}

// TestErrorsAboutMissingFilesAdvise names missing files in every flag: the error says what to do, not which system call
// failed.
func TestErrorsAboutMissingFilesAdvise(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	noSuchFile := "there is no " + none + ": check its name"
	for _, row := range []struct {
		args  string
		words string
	}{
		{"verify " + none, none + ` is not an address, as it has no "@", and there is no such file; give a CSV file, - for standard input, or addresses`},
		{"verify notanaddress", `notanaddress is not an address, as it has no "@", and there is no such file`},
		{"verify " + dir, dir + " is a folder; give a CSV file"},
		{"verify --providers " + none + " ann@example.org", "--providers: " + noSuchFile},
		{"--config " + none + " version", noSuchFile},
		{"providers check " + none, noSuchFile},
		{"sim truth " + none, noSuchFile},
		{"sim score --truth " + none + " --result " + none, "--truth: " + noSuchFile},
		{"certs show " + none, noSuchFile},
		{"restore " + none + " --data " + dir, noSuchFile},
		{"serve --data " + dir + " --tls-cert " + none + " --tls-key " + none, noSuchFile},
		{"certs node n1 --dir " + dir, "there is no " + filepath.Join(dir, "ca.crt") + ": check its name"},
		{"audit --data " + none, "there is no store in " + none + ": name the folder that serve has as --data"},
	} {
		var out, words bytes.Buffer
		status := run(t.Context(), strings.Fields(row.args),
			&console.IO{In: strings.NewReader(""), Out: &out, Err: &words})
		require.Positive(t, status, row.args)
		require.Contains(t, words.String(), row.words, row.args)
		for _, call := range []string{"stat ", "open ", "no such file or directory"} {
			require.NotContains(t, words.String(), call, row.args)
		}
	}
}

// TestInterruptionIsOneLine: a signal ends a command with one line, which promises nothing before a list is a job;
// TestInterruptedRunGoesOn in internal/verify is about later.
func TestInterruptionIsOneLine(t *testing.T) {
	dir := t.TempDir()
	list, result := filepath.Join(dir, "list.csv"), filepath.Join(dir, "result.csv")
	require.NoError(t, os.WriteFile(list, []byte("email\nann@shop.example\n"), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	const noSMTP = " --dns 127.0.0.1:1 --no-smtp"
	end := func(args string) string {
		var out, words bytes.Buffer
		input := strings.NewReader("email\nann@shop.example\n")
		require.Equal(t, 1, run(ctx, strings.Fields(args), &console.IO{In: input, Out: &out, Err: &words}),
			words.String())
		return words.String()
	}
	require.Equal(t, "probity: interrupted\n", end("plan "+list+" --dns 127.0.0.1:1"))
	require.Equal(t, "probity: interrupted\n", end("verify -"+noSMTP))
	require.Equal(t, "probity: interrupted; nothing is kept of a list on standard input, give it as a file to go on later\n", end("verify - -o "+result+noSMTP))
	require.NoDirExists(t, result+".progress")
	require.Equal(t, "probity: interrupted\n", end("verify "+list+" -o "+result+noSMTP))
	require.NoDirExists(t, result+".progress")
}
