package providerview

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"google", "google", 0}, {"gogle", "google", 1}, {"googel", "google", 1}, {"yahoo", "yaho", 1},
		{"orange", "oragne", 1}, {"", "abc", 3}, {"é", "e", 1}, {"mail", "yandex", 5}} {
		require.Equal(t, c.want, EditDistance(c.a, c.b), "%s %s", c.a, c.b)
		require.Equal(t, c.want, EditDistance(c.b, c.a), "%s %s", c.b, c.a)
	}
}
