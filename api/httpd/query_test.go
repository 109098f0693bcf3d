package httpd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzSort: a sort is one of the fields, forwards or backwards, or is refused with one that would not be.
func FuzzSort(f *testing.F) {
	fields := []string{"created_at", "name"}
	for _, s := range []string{"name", "-name", "--name", "", "-", "created-at", "name,created_at", "\xff\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sort, err := parseSort(s, fields)
		if err == nil {
			require.Equal(t, s, sort)
			require.Contains(t, fields, strings.TrimPrefix(s, "-"))
			return
		}
		require.Regexp(t, `^sort ".*" is not known: did you mean -?(created_at|name)\? Known are created_at and name, `,
			err.Error())
	})
}
