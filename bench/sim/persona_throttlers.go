package sim

import "time"

// hiddenLimits are limits that a persona does not announce. The referee counts no excess of them, as a client can only learn them
// from the replies. A client that does not slow down is blocked, and the referee counts the block. Figures in real time, before
// speed-up; 0 is none. With a speed-up of 0 no persona has hidden limits.
type hiddenLimits struct {
	dropAfter      int           // recipients of one source after which it accepts only droppedRate a minute
	droppedRate    int           // recipients a minute
	dropFor        time.Duration // how long the lower rate lasts
	closeAfter     int           // refusals on a connection after which each further one is a 421
	acceptAllAfter int           // refusals in an hour after which it accepts every recipient for the rest of the hour, without saying so
	delayStep      time.Duration // added delay of each reply for each refusal in the last 15 minutes
	maxDelay       time.Duration // the longest delay
	maxWarnings    int           // 450 and 421 replies in an hour after which it blocks the source for an hour
}

// throttlers are the tables of Throttlers.
func throttlers() []*Persona {
	unsure := Outcome{"RISKY", "accepted_unconfirmed"}
	return []*Persona{
		throttler("limit-falls", alsoAllow(truthful, Outcome{"UNKNOWN", "rate_limited"}), Limits{Connections: 10, RcptsPerMinute: 120},
			behaviour{hiddenLimits: hiddenLimits{dropAfter: 1000, droppedRate: 12, dropFor: 30 * time.Minute, maxWarnings: 60}}),
		throttler("cuts-421", truthful, Limits{Connections: 10}, behaviour{hiddenLimits: hiddenLimits{closeAfter: 3, maxWarnings: 40}}),
		throttler("blocks-25", truthful, Limits{Connections: 10, RefusalsPerHour: 25}, behaviour{}),
		throttler("silent-past", alsoAllow(truthful, unsure, Outcome{"UNKNOWN", "rate_limited"}), Limits{Connections: 10}, behaviour{hiddenLimits: hiddenLimits{acceptAllAfter: 12}}),
		throttler("stickier", alsoAllow(truthful, unsure, Outcome{"UNKNOWN", "timeout"}), Limits{Connections: 10},
			behaviour{hiddenLimits: hiddenLimits{delayStep: 3 * time.Second, maxDelay: 2 * time.Minute}}),
		throttler("greylist-source", alsoAllow(truthful, greylisted()), Limits{Connections: 10}, behaviour{greylisting: greySource, greyWait: 10 * time.Minute}),
	}
}

func throttler(name string, expect expectation, l Limits, h behaviour) *Persona {
	p := selfHosted(name, expect, h)
	p.Limits, p.hosts = l, hostsUnder("mx")
	return p
}
