package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzBearer(f *testing.F) {
	f.Add("Bearer x")
	f.Add("bearer \t")
	f.Fuzz(func(t *testing.T, header string) {
		token, err := bearer([][]byte{[]byte(header)})
		if err == nil {
			require.NotEmpty(t, token)
			require.True(t, strings.EqualFold(header[:7], "bearer "))
		}
	})
}
