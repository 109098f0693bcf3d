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
	requireInOneOf := func(packages []string, name string) {
		for _, p := range packages {
			if hasTest(t, p, name) {
				return
			}
		}
		t.Errorf("%s is in none of %v", name, packages)
	}
	for _, name := range list("CALM", "|") {
		requireInOneOf(calmly, name)
	}
	for _, name := range list("SLOW_RACE", "|") {
		requireInOneOf(calmly, name)
		requireInOneOf(slowly, name)
	}
}
