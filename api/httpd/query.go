package httpd

import (
	"slices"
	"strconv"
	"strings"
)

// checkQuery refuses a query with a parameter that the route does not have, or has once: ignoring it would change the
// answer silently.
func (c *Call) checkQuery() error {
	if c.route.PageQuery {
		return nil
	}
	seen := map[string]bool{}
	for key := range c.Ctx.QueryArgs().All() {
		name := string(key)
		if err := checkName(name, c.route.Query); err != nil {
			return err
		}
		if seen[name] {
			return Refuse(Unacceptable, "%s is given twice: give it once, values separated by commas where it takes several.", name)
		}
		seen[name] = true
	}
	return nil
}

// QueryText is a query parameter, empty if it was not sent.
func (c *Call) QueryText(name string) string { return string(c.Ctx.QueryArgs().Peek(name)) }

// QueryNumber is a query parameter that must be a whole number.
func (c *Call) QueryNumber(name string, fallback, least, most int64) (int64, error) {
	if !c.Ctx.QueryArgs().Has(name) {
		return fallback, nil
	}
	return ParseNumber(name, c.QueryText(name), least, most)
}

// QueryFlag is a query parameter that must be true or false.
func (c *Call) QueryFlag(name string) (bool, error) {
	if !c.Ctx.QueryArgs().Has(name) {
		return false, nil
	}
	return ParseFlag(name, c.QueryText(name))
}

// QuerySort is the query parameter sort, fallback if it was not sent: one of the fields, in reverse order after a -.
func QuerySort(c *Call, fallback string, fields ...string) (string, error) {
	if !c.Ctx.QueryArgs().Has("sort") {
		return fallback, nil
	}
	return parseSort(c.QueryText("sort"), fields)
}

// parseSort reads one of the fields, in reverse order after a -.
func parseSort(s string, fields []string) (string, error) {
	field, reversed := strings.CutPrefix(s, "-")
	if slices.Contains(fields, field) {
		return s, nil
	}
	nearest := nearestName(field, fields)
	if reversed {
		nearest = "-" + nearest
	}
	return "", Refuse(Unacceptable, "sort %s is not known: did you mean %s? Known are %s, each with a - before it for the reverse order.",
		quoteName(s), nearest, strings.Join(fields, " and "))
}

// ParseFlag reads true or false.
func ParseFlag(name, s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, Refuse(Unacceptable, "%s must be true or false.", name)
}

// ParseNumber reads a whole number from least to most.
func ParseNumber(name, s string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < least || n > most {
		return 0, Refuse(Unacceptable, "%s must be a whole number from %d to %d.", name, least, most)
	}
	return n, nil
}
