package usage

import (
	"cmp"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"

	"probity/engine"
	"probity/store"
)

// KeyDay is the usage of one key on one day.
type KeyDay struct {
	Key   string  `json:"key_id"` // empty for the dashboard, "deleted" for deleted jobs
	Name  *string `json:"name"`   // null once the key is revoked
	Last4 *string `json:"last4"`
	Day
}

// byKey lists the days of each key with usage: the newest first, the busiest key of a day first.
func (r *reader) byKey(keys []store.APIKey) []KeyDay {
	list := make([]KeyDay, 0, len(r.keys))
	for at, d := range r.keys {
		one := KeyDay{Key: at.key, Day: *d}
		for i := range keys {
			if keys[i].ID == at.key {
				one.Name, one.Last4 = &keys[i].Name, &keys[i].Last4
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b KeyDay) int {
		return cmp.Or(strings.Compare(b.Date, a.Date), cmp.Compare(b.Used, a.Used), strings.Compare(a.Key, b.Key))
	})
	return list
}

// WriteKeys writes the days of each key as CSV.
func (r Report) WriteKeys(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(append([]string{"date", "key_id", "key_name", "singles", "credits_used"},
		statusNames()...)); err != nil {
		return err
	}
	for _, k := range r.ByKey {
		name := ""
		if k.Name != nil {
			name = *k.Name
		}
		cells := []string{k.Date, k.Key, plainCell(name), strconv.FormatInt(k.Singles, 10),
			strconv.FormatInt(k.Used, 10)}
		for _, status := range statusNames() {
			cells = append(cells, strconv.FormatInt(k.Counts[status], 10))
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// statusNames are the names of the statuses, in their order.
func statusNames() (names []string) {
	for status := engine.Unknown; status <= engine.Invalid; status++ {
		names = append(names, status.String())
	}
	return names
}
