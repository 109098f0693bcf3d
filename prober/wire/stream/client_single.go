package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"probity/engine"
	"probity/prober/wire"
	"probity/prober/wire/frames"
)

// Single asks the node at once, or when it works by the table that the route is of. At the deadline of ctx the answer
// is UNKNOWN/timeout, whatever is late. A route of a table that is no longer ours is ErrOtherTable.
func (c *Client) Single(ctx context.Context, sr wire.SingleRequest) (wire.Answer, error) {
	table := tableOf(sr.Route)
	for {
		c.mu.Lock()
		waiting, tableSwitched := c.table != table && c.unusable() == nil, c.tableSwitched
		c.mu.Unlock()
		if table != c.cfg.Table().Hash() {
			return c.unanswered(ctx, &sr, wire.ErrOtherTable)
		}
		if !waiting {
			break
		}
		select {
		case <-tableSwitched:
		case <-ctx.Done():
			return c.unanswered(ctx, &sr, ctx.Err())
		}
	}
	// The node may take what ctx leaves, less what the way back may cost.
	var budget time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		budget = max(left-min(left/10, 50*time.Millisecond), time.Millisecond)
	}
	f := frames.NewAskFrame(&sr, budget)
	c.mu.Lock()
	node, unusable := c.single, c.unusable()
	f.Coordinator, f.Table = c.id, table[:]
	c.mu.Unlock()
	if unusable != nil {
		return wire.Answer{}, unusable
	}
	traced, span := startClientSpan(ctx, c.cfg.Node)
	answer, err := node.Single(traced, f)
	endSpan(span, err)
	if err != nil {
		return c.unanswered(ctx, &sr, err)
	}
	v, err := answer.GetVerdict().Read()
	if err != nil {
		return wire.Answer{}, c.nodeError(err)
	}
	return wire.Answer{Verdict: v, Node: answer.GetNode()}, nil
}

// unanswered is the end of a single call that has no answer.
func (c *Client) unanswered(ctx context.Context, sr *wire.SingleRequest, err error) (wire.Answer, error) {
	deadline, ok := ctx.Deadline()
	switch {
	case ok && !time.Now().Before(deadline):
		v := engine.VerdictFor(engine.ReasonTimeout, "wire/timeout", sr.Flags, time.Now())
		v.ProviderID, v.ProviderName, v.MX = sr.Route.Provider.ID, sr.Route.Provider.Name, sr.Route.MX
		return wire.Answer{Verdict: v, Node: c.cfg.Node}, nil
	case ctx.Err() != nil:
		return wire.Answer{}, ctx.Err()
	case status.Code(err) == codes.Aborted:
		return wire.Answer{}, fmt.Errorf("node %s: %s: %w", c.cfg.Node, status.Convert(err).Message(),
			wire.ErrOtherTable)
	case errors.Is(err, wire.ErrOtherTable):
		return wire.Answer{}, err
	case status.Code(err) == codes.Unavailable:
		return wire.Answer{}, fmt.Errorf("node %s: %s: %w", c.cfg.Node, status.Convert(err).Message(), wire.ErrGone)
	}
	return wire.Answer{}, c.nodeError(errors.New(status.Convert(err).Message()))
}

// request asks the node something for people, on the connection for single calls.
func (c *Client) request(ask func(frames.NodeClient) error) error {
	c.mu.Lock()
	node, live := c.single, c.state.Live
	c.mu.Unlock()
	if !live {
		return fmt.Errorf("node %s cannot be reached: %w", c.cfg.Node, wire.ErrGone)
	}
	if err := ask(node); err != nil {
		return c.nodeError(errors.New(status.Convert(err).Message()))
	}
	return nil
}

// ReadyQueues asks the node for its ready queues.
func (c *Client) ReadyQueues(ctx context.Context) (queues []wire.ReadyQueue, err error) {
	err = c.fetchView(ctx, &frames.LookFrame{Coordinator: c.id, ReadyQueues: true}, &queues)
	return queues, err
}

// Traces asks the node for recent probes.
func (c *Client) Traces(ctx context.Context, q wire.Query) (traces []wire.Trace, err error) {
	f := &frames.LookFrame{Coordinator: c.id, Email: q.Email, Status: q.Status, Provider: q.Provider,
		Limit: frames.Count(q.Limit)}
	err = c.fetchView(ctx, f, &traces)
	return traces, err
}

func (c *Client) fetchView(ctx context.Context, f *frames.LookFrame, into any) error {
	var reply *frames.ViewFrame
	if err := c.request(func(node frames.NodeClient) (err error) {
		reply, err = node.Look(ctx, f)
		return err
	}); err != nil {
		return err
	}
	if err := json.Unmarshal(reply.GetJson(), into); err != nil {
		return c.nodeError(fmt.Errorf("what it shows: %w", err))
	}
	return nil
}

// EndQuarantine asks the node to end a quarantine.
func (c *Client) EndQuarantine(ctx context.Context, egress, route string) (found bool, err error) {
	err = c.request(func(node frames.NodeClient) error {
		done, err := node.Release(ctx, &frames.ReleaseFrame{Coordinator: c.id, Egress: egress, Route: route})
		found = done.GetFound()
		return err
	})
	return found, err
}

// Forget asks the node to delete what it keeps of an address, given in folded form. It reports whether there was a
// verdict.
func (c *Client) Forget(ctx context.Context, folded string) (found bool, err error) {
	err = c.request(func(node frames.NodeClient) error {
		done, err := node.Forget(ctx, &frames.ForgetFrame{Coordinator: c.id, Email: folded})
		found = done.GetFound()
		return err
	})
	return found, err
}
