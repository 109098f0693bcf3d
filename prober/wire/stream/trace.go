package stream

import (
	"context"
	"time"

	"google.golang.org/grpc/metadata"

	"probity/internal/spans"
	"probity/prober/wire/frames"
)

// startClientSpan begins the span of a single call to the node, and sends its place with the call, if the call is
// recorded. A node that does not know it ignores it.
func startClientSpan(ctx context.Context, node string) (context.Context, *spans.Span) {
	span := spans.From(ctx).Child("probity.wire.Node/Single", spans.Client, time.Now())
	if span == nil {
		return ctx, nil
	}
	nameCall(span, node)
	return metadata.AppendToOutgoingContext(ctx, spans.Header, span.Place().String()), span
}

// startServerSpan begins the span of a single call that the coordinator records.
func startServerSpan(ctx context.Context, cfg *ServerConfig) (context.Context, *spans.Span) {
	if cfg.Tracer == nil {
		return ctx, nil
	}
	sent := metadata.ValueFromIncomingContext(ctx, spans.Header)
	if len(sent) != 1 {
		return ctx, nil
	}
	span := cfg.Tracer.Continue(spans.ParsePlace(sent[0]), "probity.wire.Node/Single", spans.Server, time.Now())
	nameCall(span, cfg.Node)
	return spans.With(ctx, span), span
}

func nameCall(span *spans.Span, node string) {
	span.Text("rpc.system", "grpc")
	span.Text("rpc.service", frames.Node_ServiceDesc.ServiceName)
	span.Text("rpc.method", "Single")
	span.Text("probity.node", node)
}

// endSpan ends the span of a call. The text of an error may quote what the call is about, and is left out.
func endSpan(span *spans.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.Fail()
	}
	span.End(time.Now())
}
