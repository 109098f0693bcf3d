package csvfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWrongColumnIsRefused: the refusal names the column, three of its cells and the ways on.
func TestWrongColumnIsRefused(t *testing.T) {
	list := "Name;E-Mail;City\r\n" + strings.Repeat("Ann;ann@shop.example;Bonn\r\nB\u202eo;bo@shop.example;\r\n", 400)
	_, err := read(strings.NewReader(list), Options{Column: "1"})
	require.EqualError(t, err, `none of the first 800 cells of the column "Name" (1) looks like an e-mail address `+
		`(delimiter ';'), for example "Ann", "B\u202eo", "Ann": `+
		`name another column with email_column, or verify this one with column_check=false`)
	refusal, ok := errors.AsType[*Error](err)
	require.True(t, ok)
	require.Equal(t, Unacceptable, refusal.Kind)
	for _, o := range []Options{{Column: "1", AnyColumn: true}, {Column: "2"}, {Column: "E-Mail"}} {
		got, err := read(strings.NewReader(list), o)
		emails := got.emails
		require.NoError(t, err)
		require.Len(t, emails, 800)
	}
	_, err = read(strings.NewReader("1,\xfcber\n2,x\n3,"+strings.Repeat("é", 100)+"\n"),
		Options{NoHeader: true, Column: "2"})
	require.ErrorContains(t, err, `none of the first 3 cells of the column 2 looks like an e-mail address `+
		`(delimiter ','), for example "über", "x", "éééé`)
	require.ErrorContains(t, err, `…": name another`)
}

// TestColumnIsJudgedByItsFirstThousandCells: one address in twenty is enough, blank cells and later ones do not count,
// and very short lists are not judged.
func TestColumnIsJudgedByItsFirstThousandCells(t *testing.T) {
	rows := func(cells, addresses int) string {
		var b strings.Builder
		for i := range cells {
			if i >= cells-addresses {
				fmt.Fprintf(&b, "a%d@x.org\n\n", i)
			} else {
				fmt.Fprintf(&b, "a%d\n", i)
			}
		}
		return b.String()
	}
	many := strings.Repeat("a@x.org\n", 10_000)
	blank := strings.Repeat("\n \n", 50_000)
	large := strings.Repeat(strings.Repeat("x", 1<<10)+"\n", 999) // more than a block
	for _, c := range []struct {
		text    string
		refused bool
	}{
		{rows(1000, 50), false}, {rows(1000, 49), true}, {rows(1000, 49) + many, true}, {rows(999, 48) + many, true},
		{rows(999, 50), false},
		{rows(20, 1), false}, {rows(21, 1), true}, {rows(3, 0), true}, {rows(2, 0), false},
		{blank, false}, {blank + rows(100, 0), true}, {blank + rows(100, 9), false},
		{large, true}, {large + "a\n" + many, true}, {many + large + large, false},
	} {
		_, err := read(strings.NewReader("email\n"+c.text), Options{})
		if !c.refused {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, `cells of the column "email" (1) looks like`)
	}
}

func TestLooksLikeAddress(t *testing.T) {
	for cell, want := range map[string]bool{"ann@example.com": true, " ann@x\u00a0": true, "a@@b.example": true,
		`"ann"@x.example`: true, "@ann": false, "ann@": false, "a b@x.example": false,
		"Ann;ann@x.example": false, "ann@x.example|1": false, "ann": false, "": false, "@": false, "a@b@": false} {
		require.Equal(t, want, looksLikeAddress(cell), cell)
	}
}
