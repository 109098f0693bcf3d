package plan

import "math"

// Report is a JobPlan in JSON.
type Report struct {
	Sources      int              `json:"sources"`
	RefusedShare float64          `json:"refused_share"`
	Addresses    int64            `json:"addresses"`
	Unasked      int64            `json:"unasked"`
	Uncounted    int64            `json:"uncounted"`
	LeastSeconds int64            `json:"least_seconds"`
	Halve        *int             `json:"sources_to_halve"` // nil: no number of sources halves the time
	Receivers    []ReceiverReport `json:"receivers"`        // longest first, at most 10
}

// ReceiverReport is one receiver of a plan.
type ReceiverReport struct {
	Route        string  `json:"route"`
	Provider     string  `json:"provider"`
	Kind         string  `json:"kind"`
	Sources      int     `json:"sources"`
	Recipients   int64   `json:"recipients"`
	Refused      int64   `json:"refused"`
	LeastSeconds int64   `json:"least_seconds"`
	Limit        *string `json:"limit"` // nil if it waits for no budget
	Budget       *int    `json:"budget"`
}

// Report returns the plan in whole seconds and whole recipients.
func (p *JobPlan) Report() Report {
	r := Report{Sources: p.Sources, RefusedShare: p.Refused, Addresses: p.Addresses, Unasked: p.Unasked,
		Uncounted:    p.Uncounted,
		LeastSeconds: int64(p.MinTime.Seconds()), Receivers: make([]ReceiverReport, 0, len(p.Receivers))}
	if p.MoreToHalve > 0 {
		r.Halve = &p.MoreToHalve
	}
	for i := range p.Receivers {
		from := &p.Receivers[i]
		to := ReceiverReport{Route: from.Route, Provider: from.Provider, Kind: from.Kind.String(),
			Sources:    from.Sources,
			Recipients: int64(math.Round(from.Due.Recipients)), Refused: int64(math.Round(from.Due.Refused)),
			LeastSeconds: int64(from.MinTime.Seconds())}
		if from.Limit != "" {
			to.Limit, to.Budget = &from.Limit, &from.Budget
		}
		r.Receivers = append(r.Receivers, to)
	}
	return r
}
