package api

import (
	"cmp"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"

	"probity/engine"
)

// keyUsageDay is the usage of one key on one day.
type keyUsageDay struct {
	Key   string  `json:"key_id"` // empty for the dashboard, "deleted" for deleted jobs
	Name  *string `json:"name"`   // null once the key is revoked
	Last4 *string `json:"last4"`
	usageDay
}

// byKey lists the days of each key with usage: the newest first, the busiest key of a day first.
func (u *usage) byKey() ([]keyUsageDay, error) {
	list := make([]keyUsageDay, 0, len(u.keys))
	keys, err := u.srv.deps.Store.Keys(u.account)
	if err != nil {
		return nil, err
	}
	for at, d := range u.keys {
		one := keyUsageDay{Key: at.key, usageDay: *d}
		for i := range keys {
			if keys[i].ID == at.key {
				one.Name, one.Last4 = &keys[i].Name, &keys[i].Last4
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b keyUsageDay) int {
		return cmp.Or(strings.Compare(b.Date, a.Date), cmp.Compare(b.Used, a.Used), strings.Compare(a.Key, b.Key))
	})
	return list, nil
}

// getUsageFile serves the days of each key as CSV.
func getUsageFile(c *call) error {
	days, err := c.QueryNumber("days", 30, 1, maxUsageDays)
	if err != nil {
		return err
	}
	byKey, err := newUsage(c.srv, c.identity.User.ID, int(days)).load()
	if err != nil {
		return err
	}
	h := &c.Ctx.Response.Header
	h.SetContentType("text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="usage.csv"`)
	out := csv.NewWriter(c.Ctx.Response.BodyWriter())
	if err := out.Write(append([]string{"date", "key_id", "key_name", "singles", "credits_used"}, statusNames()...)); err != nil {
		return err
	}
	for i := range byKey {
		if err := out.Write(byKey[i].csvRecord()); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// csvRecord is the day as cells. A name that a spreadsheet would read as a formula is prefixed, as in result files.
func (k *keyUsageDay) csvRecord() []string {
	name := ""
	if k.Name != nil {
		name = *k.Name
	}
	if name != "" && strings.ContainsRune("=+-@\t\r", rune(name[0])) {
		name = "'" + name
	}
	cells := []string{k.Date, k.Key, name, strconv.FormatInt(k.Singles, 10), strconv.FormatInt(k.Used, 10)}
	for _, status := range statusNames() {
		cells = append(cells, strconv.FormatInt(k.Counts[status], 10))
	}
	return cells
}

// statusNames are the names of the statuses, in their order.
func statusNames() (names []string) {
	for status := engine.Unknown; status <= engine.Invalid; status++ {
		names = append(names, status.String())
	}
	return names
}
