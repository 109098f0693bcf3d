package persona

import "time"

// HiddenLimits are limits that a persona does not announce. The referee counts no excess of them, as a client can only
// learn them from the replies. A client that does not slow down is blocked, and the referee counts the block. Figures
// in real time, before speed-up; 0 is none. With a speed-up of 0 no persona has hidden limits.
type HiddenLimits struct {
	DropAfter   int           // recipients of one source after which it accepts only DroppedRate a minute
	DroppedRate int           // recipients a minute
	DropFor     time.Duration // how long the lower rate lasts
	CloseAfter  int           // refusals on a connection after which each further one is a 421
	// refusals in an hour after which it accepts every recipient for the rest of the hour, without saying so
	AcceptAllAfter int
	DelayStep      time.Duration // added delay of each reply for each refusal in the last 15 minutes
	MaxDelay       time.Duration // the longest delay
	MaxWarnings    int           // 450 and 421 replies in an hour after which it blocks the source for an hour
}

// throttlers are the tables of Throttlers.
func throttlers() []*Persona {
	unsure := Outcome{"RISKY", "accepted_unconfirmed"}
	return []*Persona{
		throttler("limit-falls", alsoAllow(truthful, Outcome{"UNKNOWN", "rate_limited"}),
			Limits{Connections: 10, RcptsPerMinute: 120},
			Behaviour{HiddenLimits: HiddenLimits{DropAfter: 1000, DroppedRate: 12, DropFor: 30 * time.Minute,
				MaxWarnings: 60}}),
		throttler("cuts-421", truthful, Limits{Connections: 10},
			Behaviour{HiddenLimits: HiddenLimits{CloseAfter: 3, MaxWarnings: 40}}),
		throttler("blocks-25", truthful, Limits{Connections: 10, RefusalsPerHour: 25}, Behaviour{}),
		throttler("silent-past", alsoAllow(truthful, unsure, Outcome{"UNKNOWN", "rate_limited"}),
			Limits{Connections: 10}, Behaviour{HiddenLimits: HiddenLimits{AcceptAllAfter: 12}}),
		throttler("stickier", alsoAllow(truthful, unsure, Outcome{"UNKNOWN", "timeout"}), Limits{Connections: 10},
			Behaviour{HiddenLimits: HiddenLimits{DelayStep: 3 * time.Second, MaxDelay: 2 * time.Minute}}),
		throttler("greylist-source", alsoAllow(truthful, greylisted()), Limits{Connections: 10},
			Behaviour{Greylisting: GreySource, GreyWait: 10 * time.Minute}),
	}
}

func throttler(name string, expect expectation, l Limits, h Behaviour) *Persona {
	p := selfHosted(name, expect, h)
	p.Limits, p.hosts = l, hostsUnder("mx")
	return p
}
