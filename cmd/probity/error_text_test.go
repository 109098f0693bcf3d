package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/internal/console"
)

// TestErrorsAboutMissingFilesAdvise names missing files in every flag: the error says what to do, not which system call failed.
func TestErrorsAboutMissingFilesAdvise(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	noSuchFile := "there is no " + none + ": check its name"
	for _, row := range []struct {
		args  string
		words string
	}{
		{"verify " + none, none + ` is no address, as it has no "@", and there is no such file; give a CSV file, - for standard input, or addresses`},
		{"verify notanaddress", `notanaddress is no address, as it has no "@", and there is no such file`},
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
		status := run(t.Context(), strings.Fields(row.args), &console.IO{In: strings.NewReader(""), Out: &out, Err: &words})
		require.Positive(t, status, row.args)
		require.Contains(t, words.String(), row.words, row.args)
		for _, call := range []string{"stat ", "open ", "no such file or directory"} {
			require.NotContains(t, words.String(), call, row.args)
		}
	}
}
