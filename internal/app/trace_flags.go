package app

import (
	"context"
	"errors"
	"fmt"

	"probity/internal/spans"
)

// TraceFlags say where the spans of a process go, and how many there are.
type TraceFlags struct {
	OTLPEndpoint string  `name:"otlp-endpoint" help:"Collector of traces (OpenTelemetry, OTLP over HTTP); default: none are recorded." placeholder:"URL"`
	OTLPSample   float64 `name:"otlp-sample" help:"The part of requests and jobs that is traced, from 0 to 1, of those whose clients do not choose by a traceparent." default:"0.01"`
}

func (f *TraceFlags) check() error {
	var errs []error
	if f.OTLPEndpoint != "" {
		errs = append(errs, checkURL("otlp-endpoint", f.OTLPEndpoint, "https", "http"))
	}
	if !(f.OTLPSample >= 0 && f.OTLPSample <= 1) { // NaN is neither
		errs = append(errs, fmt.Errorf("--otlp-sample %v: give a number from 0 to 1", f.OTLPSample))
	}
	return errors.Join(errs...)
}

// open makes the tracer of a process; nil without a collector. node is the name in its cluster, "" if it has none.
func (f *TraceFlags) open(p Process, node string) (*spans.Tracer, error) {
	if f.OTLPEndpoint == "" {
		return nil, nil
	}
	t, err := spans.New(spans.Config{Endpoint: f.OTLPEndpoint, Sample: f.OTLPSample, Version: p.Build.Version,
		Node: node, Log: p.Log, Metrics: p.Registry})
	if err != nil {
		return nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	return t, nil
}

// runTracer has a tracer send spans until end is called, which sends what is left: after all that record some.
func runTracer(t *spans.Tracer) (end func()) {
	if t == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.Run(ctx)
	}()
	return func() {
		stop()
		<-ended
	}
}
