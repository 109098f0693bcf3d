package engine

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sharedFile finds a file of the shared corpora beside the repository, and skips the test where there is none.
func sharedFile(t *testing.T, name string) []byte {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "..", "shared", "corpora", name))
	if err != nil {
		t.Skipf("the shared corpus %s is not here: %v", name, errors.Unwrap(err))
	}
	return b
}

func TestSharedAddresses(t *testing.T) {
	rows := strings.Split(strings.TrimSpace(string(sharedFile(t, "addresses.tsv"))), "\n")
	for _, row := range rows[1:] {
		cells := strings.Split(row, "\t")
		var s string
		require.NoError(t, json.Unmarshal([]byte(cells[0]), &s))
		_, err := Parse(s)
		if want := cells[1] == "valid"; want != (err == nil) {
			t.Errorf("%s (%s): want %s, got %v", cells[0], cells[2], cells[1], err)
		}
	}
}

func TestAtextIsThatOfTheRFC(t *testing.T) {
	const atext = "!#$%&'*+-/=?^_`{|}~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for c := range 256 {
		require.Equal(t, strings.IndexByte(atext, byte(c)) >= 0, isAtext(byte(c)), "%q", c)
	}
}
