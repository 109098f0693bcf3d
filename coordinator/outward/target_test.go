package outward

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse: the host of an accepted URL is an address that may be reached, or a plain name.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"http://hook.example/", "http://[::1]:80/%0d%0a", "https://bücher.example/?a=\"b\" c",
		"http://127.1/", "http://h/\u0085?\x7f", "https://[64:ff9b::a00:1]/", "https://8.8.8.8./"} {
		f.Add(seed)
	}
	d := New(Config{})
	f.Fuzz(func(t *testing.T, raw string) {
		target, err := d.Parse(raw)
		if err == nil {
			require.True(t, target.addr.IsValid() && d.mayReach(target.addr) || hostName(target.Host))
		}
	})
}
