package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzConfig: no configuration file causes a panic.
func FuzzConfig(f *testing.F) {
	f.Add("listen = \"127.0.0.1:8080\"\negress = [\"192.0.2.1=mx.example.org\"]\n")
	f.Add("data = 1e400\n[a]\nb = 1979-05-27\n")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := new(configFile).load(strings.NewReader(text))
		require.Equal(t, err == nil, values != nil)
	})
}
