package addresses

import (
	"testing"

	"github.com/stretchr/testify/require"

	"probity/coordinator/csvfile"
)

// found returns the folded forms of the addresses in rows of two columns, the second of which is that of e-mail.
func found(t testing.TB, text, encoding string) (cells, others []string) {
	d := csvfile.Dialect{Delimiter: ',', Encoding: csvfile.UTF8, Column: 1, Header: 2}
	b := csvfile.Block{Buf: []byte(text)}
	require.NoError(t, d.Parse(&b))
	find := Finder{Dialect: d}
	find.Dialect.Encoding = encoding
	for i := range b.Rows {
		find.InRow(&b, i, func(m Mention) bool {
			if m.IsCell {
				cells = append(cells, m.Folded())
			} else {
				others = append(others, m.Folded())
			}
			return false
		})
	}
	return cells, others
}

// TestRulesAreThoseOfTheVersion: if one of these changes, sets made before lack addresses that an erasure finds now.
// Raise Rules then, so that they are not used.
func TestRulesAreThoseOfTheVersion(t *testing.T) {
	require.Equal(t, 1, Rules)
	cells, others := found(t, "'ann@x.example',\"\"\"U7\"\"@Shop.EXAMPLE\"\n"+
		"mailto:x@y.example.,A.n.n+news@GoogleMail.com\n"+
		"a=b@c.example,ann@münchen.example\n"+
		"<d.@e.example>,Ann <ann@y.example>\n"+
		"é@z.example,ŝtraße@straße.example\n"+
		"x y@@z.example,\n", csvfile.UTF8)
	require.Equal(t, []string{"u7@shop.example", "ann@googlemail.com", "ann@xn--mnchen-3ya.example",
		"ŝtraße@xn--strae-oqa.example"}, cells)
	require.Equal(t, []string{"'ann@x.example", "ann@x.example", "x@y.example", "a=b@c.example", "b@c.example",
		"ann@y.example", "é@z.example"}, others)
	cells, others = found(t, "\xe9=b@m\xfcnchen.example,\xe9@x.example\n", csvfile.Windows1252)
	require.Equal(t, []string{"é@x.example"}, cells)
	require.Equal(t, []string{"é=b@xn--mnchen-3ya.example", "b@xn--mnchen-3ya.example"}, others)
}
