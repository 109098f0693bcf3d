package probity_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestListedTestsAreRun requires that each test that make test skips under the race detector is in a package where it is run without,
// and, if make race has it at night, in a package of that.
func TestListedTestsAreRun(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	list := func(variable, separator string) []string {
		found := regexp.MustCompile(`(?m)^` + variable + ` := (.*)$`).FindSubmatch(text)
		require.NotNil(t, found, variable)
		return strings.Split(string(found[1]), separator)
	}
	slowly := list("SLOWLY", " ")
	calmly := list("CALMLY", " ")
	require.Equal(t, "$(SLOWLY)", calmly[0])
	calmly = append(calmly[1:], slowly...)
	used := map[string]bool{}
	requireInOneOf := func(packages []string, name string) {
		for _, p := range packages {
			if hasTest(t, p, name) {
				used[p] = true
				return
			}
		}
		t.Errorf("%s is in none of %v", name, packages)
	}
	requireAllUsed := func(packages []string) {
		for _, p := range packages {
			if !used[p] {
				t.Errorf("%s has none of the tests that it is listed for", p)
			}
		}
	}
	for _, name := range list("SLOW_RACE", "|") {
		requireInOneOf(slowly, name)
	}
	requireAllUsed(slowly)
	for _, name := range list("CALM", "|") {
		requireInOneOf(calmly, name)
	}
	requireAllUsed(calmly)
}
