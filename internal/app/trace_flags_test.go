package app

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestTraceFlags: without a collector there is no tracer, and what makes no sense is refused with the flag's name.
func TestTraceFlags(t *testing.T) {
	off := TraceFlags{OTLPSample: 0.01}
	require.NoError(t, off.check())
	tracer, err := off.open(Process{}, "p1")
	require.NoError(t, err)
	require.Nil(t, tracer)
	runTracer(tracer)()

	on := TraceFlags{OTLPEndpoint: "https://collector.test/otlp", OTLPSample: 1}
	require.NoError(t, on.check())
	tracer, err = on.open(Process{Registry: prometheus.NewRegistry()}, "p1")
	require.NoError(t, err)
	require.NotNil(t, tracer)
	runTracer(tracer)()

	for flag, wrong := range map[string]TraceFlags{
		"--otlp-endpoint": {OTLPEndpoint: "collector.test:4317"},
		"--otlp-sample":   {OTLPSample: 1.5},
	} {
		require.ErrorContains(t, wrong.check(), flag)
	}
	serve := ServeFlags{PublicPerDay: 1, DiskFloor: 1, AdminEmail: "root@localhost.localdomain",
		TraceFlags: TraceFlags{OTLPSample: -1}}
	require.ErrorContains(t, serve.Validate(), "--otlp-sample")
	node := ProberFlags{TraceFlags: TraceFlags{OTLPSample: -1}}
	require.ErrorContains(t, node.Validate(), "--otlp-sample")
}
