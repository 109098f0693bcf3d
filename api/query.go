package api

import (
	"slices"
	"strconv"
	"strings"
)

// checkQuery refuses a query with a known parameter that is misspelt or given twice: ignoring it would change the answer
// silently.
func (c *Call) checkQuery(known ...string) error {
	seen := map[string]bool{}
	for key := range c.Ctx.QueryArgs().All() {
		name := string(key)
		if err := checkUnknownField(name, known); err != nil {
			return err
		}
		if seen[name] && slices.Contains(known, name) {
			return refuse(unacceptable, "%s is given twice: give it once, values separated by commas where it takes several.", name)
		}
		seen[name] = true
	}
	return nil
}

// queryText is a query parameter, empty if it was not sent.
func (c *Call) queryText(name string) string { return string(c.Ctx.QueryArgs().Peek(name)) }

// queryNumber is a query parameter that must be a whole number.
func (c *Call) queryNumber(name string, fallback, least, most int64) (int64, error) {
	if !c.Ctx.QueryArgs().Has(name) {
		return fallback, nil
	}
	return readNumber(name, c.queryText(name), least, most)
}

// queryFlag is a query parameter that must be true or false.
func (c *Call) queryFlag(name string) (bool, error) {
	if !c.Ctx.QueryArgs().Has(name) {
		return false, nil
	}
	return readFlag(name, c.queryText(name))
}

// readFlag reads true or false.
func readFlag(name, s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, refuse(unacceptable, "%s must be true or false.", name)
}

// readNumber reads a whole number from least to most.
func readNumber(name, s string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < least || n > most {
		return 0, refuse(unacceptable, "%s must be a whole number from %d to %d.", name, least, most)
	}
	return n, nil
}
