package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// TestManualHasEveryCommandAndFlag: each command has a page, which names its flags; troff, where it is installed, has
// nothing to warn of.
func TestManualHasEveryCommandAndFlag(t *testing.T) {
	_, parser := newCLI(t)
	folder := filepath.Join(t.TempDir(), "new", "man1")
	require.NoError(t, manCmd{Folder: folder}.Run(&kong.Context{Kong: parser}))
	troff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("the pages are not formatted: groff is not installed")
	}
	flags := 0
	for _, command := range parser.Model.Leaves(true) {
		file := filepath.Join(folder, strings.ReplaceAll(command.FullPath(), " ", "-")+".1")
		page, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, f := range command.Flags {
			if !f.Hidden {
				flags++
				require.Contains(t, string(page), `\-\-`+strings.ReplaceAll(f.Name, "-", `\-`), file)
			}
		}
		if troff == "" {
			continue
		}
		warnings, err := exec.CommandContext(t.Context(), troff, "-man", "-ww", "-z", "-Tutf8", file).CombinedOutput()
		require.NoError(t, err, file)
		require.Empty(t, string(warnings), file)
	}
	require.Greater(t, flags, 100)
}

// TestRoffTextStaysAsItIs: text that troff reads as a macro or an escape is printed instead.
func TestRoffTextStaysAsItIs(t *testing.T) {
	require.Equal(t, `a \e \-\-flag`, roff(`a \ --flag`))
	require.Equal(t, "\\&.toml\n\\&'x'", roff(".toml\n'x'"))
}
