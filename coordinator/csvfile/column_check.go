package csvfile

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"probity/engine"
)

// The sample from which it is judged whether the e-mail column is one.
const (
	checkedCells = 1000 // first cells that are not blank
	leastChecked = 3    // a shorter column may well have no right address
	leastShare   = 20   // one cell in so many must look like an address
	shownCells   = 3
	maxShown     = 64 // characters of a cell that is shown
)

// columnCheck counts which of the first e-mail cells look like addresses. A list whose wrong column is verified costs
// its sender a credit for each row, and says nothing about any address.
type columnCheck struct {
	cells, addresses int
	others           []string // the first cells that do not look like addresses, made safe to show
}

// add counts the cells of a block.
func (c *columnCheck) add(b *Block) {
	for i := range b.Rows {
		if c.isComplete() {
			return
		}
		if b.Rows[i].Blank {
			continue
		}
		c.cells++
		text := string(b.Email(i))
		if looksLikeAddress(text) {
			c.addresses++
		} else if len(c.others) < shownCells {
			c.others = append(c.others, show(engine.Trim(text)))
		}
	}
}

func (c *columnCheck) isComplete() bool { return c.cells >= checkedCells }

// verdict refuses a column in which almost no cell looks like an address.
func (c *columnCheck) verdict(d Dialect) error {
	if c.cells < leastChecked || c.addresses*leastShare >= c.cells {
		return nil
	}
	column, delimiter := "column "+strconv.Itoa(d.Column+1), fmt.Sprintf(" (delimiter %q)", d.Delimiter)
	switch {
	case d.JSON:
		column, delimiter = "member "+show(d.Name), ""
	case d.HasHeader:
		column = fmt.Sprintf("column %s (%d)", show(d.Name), d.Column+1)
	}
	count := "almost none"
	if c.addresses == 0 {
		count = "none"
	}
	return refuse(Unacceptable, 0, "%s of the first %d cells of the %s looks like an e-mail address%s, "+
		"for example %s: name another column with email_column, or verify this one with column_check=false",
		count, c.cells, column, delimiter, strings.Join(c.others, ", "))
}

// looksLikeAddress reports whether a cell has the shape of an address, right or wrong: an @ with something on both
// sides, and neither white space nor a delimiter. The dashboard has the same rule.
func looksLikeAddress(cell string) bool {
	s := engine.Trim(cell)
	at := strings.IndexByte(s, '@')
	return at > 0 && strings.LastIndexByte(s, '@') < len(s)-1 && !strings.ContainsFunc(s, partsCells)
}

func partsCells(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(Delimiters, r) }

// show quotes a cell so that it can be shown: short, on one line, without characters that cannot be seen.
func show(cell string) string {
	if !utf8.ValidString(cell) {
		cell, _ = charmap.Windows1252.NewDecoder().String(cell)
	}
	if characters := []rune(cell); len(characters) > maxShown {
		cell = string(characters[:maxShown]) + "…"
	}
	return strconv.Quote(cell)
}
